//! What a cognet cannot reach.

use crate::fake::{failure_of, outputs_of};

#[tokio::test]
async fn no_global_reaches_a_file_a_socket_or_a_process() {
    for name in ["io", "loadstring", "load", "dofile", "loadfile", "getfenv", "setfenv", "newproxy", "package", "jit"] {
        let error = failure_of(&format!("print({name})")).await;
        assert_eq!(error.code, "UNDEFINED_GLOBAL", "{name}");
    }
    for member in
        ["os.execute", "os.getenv", "os.exit", "os.remove", "debug.getinfo", "debug.sethook", "debug.getregistry"]
    {
        assert_eq!(
            outputs_of(&format!("kernel.output('cognet:output:text', {{ content = tostring({member}) }})")).await,
            ["nil"]
        );
    }
}

#[tokio::test]
async fn the_globals_are_these_and_no_more() {
    let body = "local names = {}\nfor name in getmetatable and _G do table.insert(names, name) end\ntable.sort(names)\n\
                kernel.output('cognet:output:text', { content = table.concat(names, ' ') })";
    let wanted = "_G _VERSION assert bit32 buffer collectgarbage coroutine debug defineCognet definePlugin error getmetatable \
                  integer ipairs kernel loop math newproxy next os pairs pcall phase print rawequal rawget rawlen rawset \
                  require select setmetatable string system table tonumber tostring type typeof unpack utf8 vector world xpcall";
    let found = outputs_of(body).await;
    let extra: Vec<_> = found[0].split(' ').filter(|name| !wanted.split(' ').any(|own| own == *name)).collect();
    assert!(extra.is_empty(), "{extra:?}");
}

#[tokio::test]
async fn the_functions_of_frames_stay_out_of_reach() {
    for call in ["debug.info(1, 'f')", "debug.info(3, 'sf')", "debug.info(coroutine.running(), 2, 'f')"] {
        assert_eq!(failure_of(call).await.code, "ARGUMENT_INVALID", "{call}");
    }
    let body = "local function here() return debug.info(1, 'l') end\n\
                kernel.output('cognet:output:text', { content = tostring(here()) })";
    assert_eq!(outputs_of(body).await, ["2"]);
}

#[tokio::test]
async fn libraries_and_the_string_metatable_are_read_only() {
    for body in [
        "string.format = print",
        "table.insert = nil",
        "math.pi = 3",
        "os.clock = print",
        "coroutine.resume = print",
        "getmetatable('').__index = {}",
        "debug.info = print",
        "_G.print = nil",
        "require('@axon/json').encode = print",
    ] {
        assert_eq!(failure_of(body).await.code, "COGNET_RUNTIME", "{body}");
    }
}

#[tokio::test]
async fn reading_an_undefined_global_raises_with_the_nearest() {
    let error = failure_of("pritn('x')").await;
    assert_eq!(error.code, "UNDEFINED_GLOBAL");
    assert!(error.message.contains("`print`"), "{error}");
    assert_eq!(error.at.unwrap().line, 2);
    assert_eq!(failure_of("local x = _G.nothing").await.code, "UNDEFINED_GLOBAL");
}

#[tokio::test]
async fn globals_of_the_cognets_own_work() {
    let body = "counter = 1\ncounter += 1\nkernel.output('cognet:output:text', { content = tostring(counter) })";
    assert_eq!(outputs_of(body).await, ["2"]);
}

#[tokio::test]
async fn collectgarbage_only_counts() {
    assert_eq!(
        outputs_of("kernel.output('cognet:output:text', { content = type(collectgarbage('count')) })").await,
        ["number"]
    );
    assert_eq!(failure_of("collectgarbage('collect')").await.code, "ARGUMENT_INVALID");
}

#[tokio::test]
async fn errors_of_the_host_are_frozen_values_with_code_and_message() {
    let body = "local ok, err = pcall(kernel.run, 7)\nassert(not ok and type(err) == 'table' and err.code == 'ARGUMENT_INVALID')\n\
                assert(tostring(err) == err.code .. ': ' .. err.message and not pcall(function() err.code = 'x' end))\n\
                kernel.output('cognet:output:text', { content = 'held' })";
    assert_eq!(outputs_of(body).await, ["held"]);
}
