//! How a cognet is found, loaded, refused.

use crate::fake::{CONFIG, Cognet, FakeKernel};
use axon_runtime::{Brain, CognetSource, Kernel, Limits, Mode, read_config};

async fn refusal(cognet: &Cognet) -> axon_runtime::CognetError {
    cognet.load(&FakeKernel::new()).await.err().expect("the cognet should be refused")
}

#[tokio::test]
async fn a_folder_loads_config_plugins_by_name_main_and_boot_hooks_in_that_order() {
    let note = |name: &str| format!("kernel.emit('cognet:order', {{ at = '{name}' }})");
    let plugin = |name: &str| {
        let boot = note(&format!("boot {name}"));
        format!("{}\nreturn definePlugin(function(ctx) ctx.hooks.on('boot', function() {boot} end) end)", note(name))
    };
    let cognet = Cognet::folder(&[
        ("cognet.config.lua", &format!("{}\n{CONFIG}", note("config"))),
        ("plugins/b.luau", &plugin("b")),
        ("plugins/a.lua", &plugin("a")),
        ("plugins/readme.md", "no plugin"),
        ("src/main.lua", &format!("{}\nloop(function() end)", note("main"))),
    ]);
    let kernel = FakeKernel::new();
    cognet.load(&kernel).await.unwrap();
    let order: Vec<_> =
        kernel.emitted("cognet:order").iter().map(|data| data["at"].as_str().unwrap().to_owned()).collect();
    assert_eq!(order, ["config", "a", "b", "main", "boot a", "boot b"]);
}

#[tokio::test]
async fn the_config_is_read_with_its_defaults() {
    let cognet = Cognet::main("loop(function() end)");
    let brain = cognet.load(&FakeKernel::new()).await.unwrap();
    let config = brain.config();
    assert_eq!((config.name.as_str(), config.version.as_str(), config.abi.as_str()), ("demo", "1.0.0", "9"));
    assert_eq!((config.mode, config.max_ticks_per_wake, &config.wake_on), (Mode::Invocation, 32, &None));

    let text = "defineCognet { name = 'x', version = '1', abi = '9', mode = { kind = 'continuous' }, \
                maxTicksPerWake = 3, wakeOn = { 'stimulus:text' } }\nloop(function() end)";
    let brain = Cognet::file("x.lua", text).load(&FakeKernel::new()).await.unwrap();
    let config = brain.config();
    assert_eq!((config.mode, config.max_ticks_per_wake), (Mode::Continuous, 3));
    assert_eq!(config.wake_on.as_deref(), Some(&["stimulus:text".to_owned()][..]));
}

#[tokio::test]
async fn luau_works_as_an_extension_wherever_lua_does() {
    let cognet = Cognet::folder(&[
        ("cognet.config.luau", CONFIG),
        ("src/main.luau", "local part = require('./part')\nassert(part == 7)\nloop(function() end)"),
        ("src/part.luau", "return 7"),
    ]);
    cognet.load(&FakeKernel::new()).await.unwrap();
}

#[tokio::test]
async fn an_abi_of_another_kernel_is_refused_naming_both_before_main_runs() {
    let config = "return defineCognet { name = 'old', version = '0.3.0', abi = '8', shape = 'unknown' }";
    let main = "kernel.emit('cognet:main')\nloop(function() end)";
    let cognet = Cognet::folder(&[("cognet.config.lua", config), ("src/main.lua", main)]);
    let kernel = FakeKernel::new();
    let error = cognet.load(&kernel).await.err().unwrap();
    assert_eq!(error.code, "COGNET_ABI_MISMATCH");
    assert!(error.message.contains("\"8\"") && error.message.contains("\"9\"") && error.message.contains("old 0.3.0"));
    assert!(kernel.emitted_kinds().is_empty());
    let identity = read_config(&cognet.source, Limits::default()).await.unwrap();
    assert_eq!((identity.name.as_str(), identity.abi.as_str()), ("old", "8"));
}

#[tokio::test]
async fn catching_the_refusal_of_an_abi_does_not_help() {
    let text = "pcall(defineCognet, { name = 'old', version = '1', abi = '8' })\nkernel.emit('cognet:main')\nloop(function() end)";
    let kernel = FakeKernel::new();
    let error = Cognet::file("old.lua", text).load(&kernel).await.err().unwrap();
    assert_eq!(error.code, "COGNET_ABI_MISMATCH");
    assert!(kernel.emitted_kinds().is_empty());
}

#[tokio::test]
async fn reading_the_identity_of_a_single_file_stops_at_define_cognet() {
    let text = "defineCognet { name = 'x', version = '2', abi = '9' }\nerror('main ran')";
    let config = read_config(&Cognet::file("x.lua", text).source, Limits::default()).await.unwrap();
    assert_eq!(config.version, "2");
}

#[tokio::test]
async fn an_identity_that_is_not_there_is_told_and_what_else_is_wrong_is_not() {
    let text = "defineCognet { version = '2', abi = '9' }";
    let error = read_config(&Cognet::file("x.lua", text).source, Limits::default()).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.message.as_str()), ("COGNET_INVALID", "defineCognet: name is missing"));
    let text = "defineCognet { name = 'x', version = '2', abi = '9', later = true }";
    assert_eq!(read_config(&Cognet::file("x.lua", text).source, Limits::default()).await.unwrap().name, "x");
}

#[tokio::test]
async fn a_config_that_is_wrong_says_what_and_where() {
    for (config, wanted) in [
        ("return defineCognet { name = 'x', version = '1' }", "abi is missing"),
        ("return defineCognet { name = 'x', version = '1', abi = 9 }", "abi must be a string"),
        ("return defineCognet { name = '', version = '1', abi = '9' }", "name must be a string"),
        ("return defineCognet { name = 'a/b', version = '1', abi = '9' }", "may hold letters"),
        ("return defineCognet { name = 'x', version = '1', abi = '9', maxTickPerWake = 1 }", "maxTicksPerWake"),
        ("return defineCognet { name = 'x', version = '1', abi = '9', maxTicksPerWake = 0 }", "from 1"),
        ("return defineCognet { name = 'x', version = '1', abi = '9', mode = { kind = 'often' } }", "mode.kind"),
        ("return defineCognet { name = 'x', version = '1', abi = '9', wakeOn = { 'stimulus:tex' } }", "stimulus:text"),
        ("return 7", "never calls defineCognet"),
    ] {
        let error = refusal(&Cognet::folder(&[("cognet.config.lua", config), ("src/main.lua", "")])).await;
        assert_eq!(error.code, "COGNET_INVALID", "{config}");
        assert!(error.message.contains(wanted), "{config}: {error}");
    }
}

#[tokio::test]
async fn a_cognet_has_exactly_one_loop() {
    assert_eq!(refusal(&Cognet::main("local x = 1")).await.code, "COGNET_NO_LOOP");
    let error = refusal(&Cognet::main("loop(function() end)\nloop(function() end)")).await;
    assert_eq!(error.code, "COGNET_LOOP_TWICE");
    assert_eq!(error.at.unwrap().line, 2);
}

#[tokio::test]
async fn a_syntax_error_names_file_line_and_the_line_itself() {
    let error = refusal(&Cognet::main("local x = 1\nlocal = 2\nloop(function() end)")).await;
    assert_eq!(error.code, "COGNET_SYNTAX");
    let at = error.at.clone().unwrap();
    assert_eq!((at.file.as_str(), at.line), ("cognets/demo/src/main.lua", 2));
    assert_eq!(at.source_line.as_deref(), Some("local = 2"));
    assert!(!error.message.contains("cognets/"), "{error}");
}

#[tokio::test]
async fn a_syntax_error_in_a_required_file_is_told_of_that_file() {
    let files =
        [("cognet.config.lua", CONFIG), ("src/main.lua", "require('./broken')"), ("src/broken.lua", "\n\nx = = 1")];
    let error = refusal(&Cognet::folder(&files)).await;
    assert_eq!(error.code, "COGNET_SYNTAX");
    let at = error.at.unwrap();
    assert_eq!((at.file.as_str(), at.line), ("cognets/demo/src/broken.lua", 3));
}

#[tokio::test]
async fn an_error_while_loading_names_file_and_line_without_layers() {
    let error = refusal(&Cognet::main("local function deep()\n  error('no luck')\nend\ndeep()")).await;
    assert_eq!((error.code.as_str(), error.message.as_str()), ("COGNET_RUNTIME", "no luck"));
    assert_eq!(error.at.unwrap().line, 2);
    assert!(error.traceback.iter().any(|frame| frame.contains("main.lua:4")), "{:?}", error.traceback);
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    for source in [CognetSource::Folder("/nonexistent/x".into()), CognetSource::File("/nonexistent/x.lua".into())] {
        let kernel = FakeKernel::new() as std::sync::Arc<dyn Kernel>;
        let error = Brain::load(&source, kernel, Limits::default()).await.err().unwrap();
        assert_eq!(error.code, "COGNET_NOT_FOUND");
    }
    let error = refusal(&Cognet::folder(&[("cognet.config.lua", CONFIG)])).await;
    assert_eq!(error.code, "COGNET_NOT_FOUND");
    assert!(error.message.contains("src/main.lua"), "{error}");
}

#[tokio::test]
async fn bytecode_is_refused() {
    let error = refusal(&Cognet::main("\u{6}\u{3}\0\0")).await;
    assert_eq!(error.code, "COGNET_SYNTAX");
}

#[tokio::test]
async fn embedded_files_load_like_those_on_disk() {
    const FOLDER: CognetSource = CognetSource::Embedded {
        name: "inner",
        files: &[
            ("cognet.config.lua", "return defineCognet { name = 'inner', version = '1', abi = '9' }"),
            ("src/main.lua", "require('./part')\nloop(function() error('here') end)"),
            ("src/part.lua", "return 1"),
        ],
    };
    const FILE: CognetSource = CognetSource::Embedded {
        name: "one",
        files: &[("one.lua", "defineCognet { name = 'one', version = '1', abi = '9' }\nloop(function() end)")],
    };
    let kernel = FakeKernel::new();
    let mut brain = Brain::load(&FOLDER, kernel.clone(), Limits::default()).await.unwrap();
    let error = crate::fake::failure(brain.wake(Vec::new(), Default::default()).await);
    assert_eq!(error.at.unwrap().file, "@axon/inner/src/main.lua");
    let brain = Brain::load(&FILE, kernel, Limits::default()).await.unwrap();
    assert_eq!(brain.config().name, "one");
}

#[tokio::test]
async fn a_boot_hook_may_use_scope_base_emit_and_store_but_not_the_verbs_of_a_wake() {
    let plugin = |verb: &str| format!("definePlugin(function(ctx) ctx.hooks.on('boot', function() {verb} end) end)");
    for (verb, refused) in [
        (
            "kernel.scope(); kernel.base(); kernel.emit('cognet:x'); kernel.store.set('a', 1); kernel.store.session.get()",
            false,
        ),
        ("kernel.output('cognet:output:text', { content = '' })", true),
        ("kernel.stream { messages = {} }", true),
        ("kernel.run('1')", true),
    ] {
        let cognet = Cognet::folder(&[
            ("cognet.config.lua", CONFIG),
            ("plugins/p.lua", &plugin(verb)),
            ("src/main.lua", "loop(function() end)"),
        ]);
        let outcome = cognet.load(&FakeKernel::new()).await;
        assert_eq!(outcome.is_err(), refused, "{verb}");
        if let Err(error) = outcome {
            assert_eq!(error.code, "SYSCALL_OUTSIDE_WAKE");
            assert_eq!(error.at.unwrap().file, "cognets/demo/plugins/p.lua");
        }
    }
}

#[tokio::test]
async fn shutdown_runs_every_hook_and_reports_the_first_error() {
    let cognet = Cognet::folder(&[
        ("cognet.config.lua", CONFIG),
        ("plugins/a.lua", "definePlugin(function(ctx) ctx.hooks.on('shutdown', function() error('a') end) end)"),
        (
            "plugins/b.lua",
            "definePlugin(function(ctx) ctx.hooks.on('shutdown', function() kernel.store.set('saved', 1) end) end)",
        ),
        ("src/main.lua", "loop(function() end)"),
    ]);
    let kernel = FakeKernel::new();
    let brain = cognet.load(&kernel).await.unwrap();
    let error = brain.shutdown().await.unwrap_err();
    assert_eq!(error.message, "a");
    assert!(kernel.store.lock().unwrap().contains_key("saved"));
}
