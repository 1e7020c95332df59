//! What a cognet cannot reach.

use axon_runtime::LUAU_DECLARATIONS;

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

/// What Luau itself has and a sandbox may have.
const LUAU: &str = "_G _VERSION assert bit32 buffer collectgarbage coroutine debug error getmetatable integer ipairs math next \
                    os pairs pcall print rawequal rawget rawlen rawset require select setmetatable string table tonumber \
                    tostring type typeof unpack utf8 vector xpcall";

async fn names_in(table: &str) -> Vec<String> {
    let body = format!(
        "local names = {{}}\nfor name in {table} do table.insert(names, name) end\ntable.sort(names)\n\
         kernel.output('cognet:output:text', {{ content = table.concat(names, ' ') }})"
    );
    outputs_of(&body).await[0].split(' ').map(str::to_owned).collect()
}

#[tokio::test]
async fn the_globals_are_those_of_luau_and_those_that_are_declared() {
    let own: Vec<String> =
        names_in("_G").await.into_iter().filter(|name| !LUAU.split(' ').any(|luau| luau == name)).collect();
    let declared = LUAU_DECLARATIONS.lines().filter_map(|line| line.strip_prefix("declare "));
    let mut declared: Vec<&str> = declared
        .map(|rest| rest.trim_start_matches("function ").split([':', '(', '<']).next().unwrap_or_default())
        .collect();
    declared.sort_unstable();
    assert_eq!(own, declared);
}

#[tokio::test]
async fn the_members_of_kernel_and_world_are_those_that_are_declared() {
    for (table, depth) in [("kernel", 1), ("kernel.store", 2), ("kernel.store.session", 3), ("world", 1)] {
        let head = format!("declare {}: {{\n", table.split('.').next().unwrap());
        let block = LUAU_DECLARATIONS.split(&head).nth(1).unwrap().split("\n}\n").next().unwrap();
        let mut declared: Vec<&str> = block
            .lines()
            .filter(|line| line.chars().take_while(|c| *c == '\t').count() == depth)
            .filter_map(|line| line.trim().split_once(": ").map(|(name, _)| name))
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_alphabetic()))
            .collect();
        declared.sort_unstable();
        assert_eq!(names_in(table).await, declared, "{table}");
    }
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
