//! `require` and its confinement.

use crate::fake::{CONFIG, Cognet, FakeKernel};

async fn load(files: &[(&str, &str)]) -> Result<(), axon_runtime::CognetError> {
    let mut all = vec![("cognet.config.lua", CONFIG)];
    all.extend_from_slice(files);
    Cognet::folder(&all).load(&FakeKernel::new()).await.map(drop)
}

#[tokio::test]
async fn a_module_is_relative_to_the_file_that_asks_and_loaded_once() {
    load(&[
        ("src/main.lua", "local a = require('./deep/a')\nassert(a == require('./deep/../deep/a.lua') and a.b.n == 1)\nloop(function() end)"),
        ("src/deep/a.lua", "return { b = require('./b') }"),
        ("src/deep/b.luau", "count = (rawget(getmetatable('').__index, 'no') or 0) + 1\nreturn { n = count }"),
    ])
    .await
    .unwrap();
}

#[tokio::test]
async fn a_folder_with_init_is_a_module() {
    load(&[
        ("src/main.lua", "assert(require('./part') == 3)\nloop(function() end)"),
        ("src/part/init.lua", "return 3"),
    ])
    .await
    .unwrap();
}

#[tokio::test]
async fn a_plugin_and_main_share_a_module() {
    load(&[
        ("src/state.lua", "return { n = 0 }"),
        ("plugins/p.lua", "require('../src/state').n = 5"),
        ("src/main.lua", "assert(require('./state').n == 5)\nloop(function() end)"),
    ])
    .await
    .unwrap();
}

#[tokio::test]
async fn names_that_lead_out_or_are_no_relative_names_are_refused() {
    for name in ["../../other", "../../../etc/passwd", "/etc/passwd", "state", "C:/x", ".\\\\state", "./a\\0b"] {
        let error =
            load(&[("src/main.lua", &format!("require('{name}')")), ("src/state.lua", "return 1")]).await.unwrap_err();
        assert_eq!(error.code, "REQUIRE_REFUSED", "{name}: {error}");
        assert_eq!(error.at.unwrap().line, 1);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_symbolic_link_that_leads_out_is_refused_and_one_that_stays_inside_works() {
    let cognet = Cognet::folder(&[
        ("cognet.config.lua", CONFIG),
        ("src/main.lua", "assert(require('./inner') == 1)\nrequire('./outer')"),
        ("src/real.lua", "return 1"),
    ]);
    let source = cognet.folder.path().join("demo/src");
    std::fs::write(cognet.folder.path().join("secret.lua"), "return 'secret'").unwrap();
    std::os::unix::fs::symlink("real.lua", source.join("inner.lua")).unwrap();
    std::os::unix::fs::symlink("../../secret.lua", source.join("outer.lua")).unwrap();
    let error = cognet.load(&FakeKernel::new()).await.err().unwrap();
    assert_eq!(error.code, "REQUIRE_REFUSED");
    assert_eq!(error.at.unwrap().line, 2);
}

#[tokio::test]
async fn files_that_require_each_other_in_a_circle_are_told() {
    let error =
        load(&[("src/main.lua", "require('./a')"), ("src/a.lua", "require('./b')"), ("src/b.lua", "require('./a')")])
            .await
            .unwrap_err();
    assert_eq!(error.code, "REQUIRE_CYCLE");
    assert!(error.message.contains("src/main.lua -> src/a.lua -> src/b.lua -> src/a.lua"), "{error}");
}

#[tokio::test]
async fn what_is_not_there_is_told_and_both_extensions_at_once_are_refused() {
    let error = load(&[("src/main.lua", "require('./nothing')")]).await.unwrap_err();
    assert_eq!(error.code, "REQUIRE_NOT_FOUND");
    assert!(error.message.contains("cognets/demo/src/nothing"), "{error}");
    let error = load(&[("src/main.lua", "require('./x')"), ("src/x.lua", ""), ("src/x.luau", "")]).await.unwrap_err();
    assert_eq!(error.code, "COGNET_INVALID");
    let error = load(&[("src/main.lua", "require('@axon/jsn')")]).await.unwrap_err();
    assert!(error.message.contains("`@axon/json`"), "{error}");
}

#[tokio::test]
async fn a_module_that_fails_may_be_asked_for_again() {
    load(&[
        (
            "src/main.lua",
            "tries = 0\nassert(not pcall(require, './x'))\nassert(require('./x') == 2)\nloop(function() end)",
        ),
        ("src/x.lua", "tries += 1\nif tries == 1 then error('first') end\nreturn tries"),
    ])
    .await
    .unwrap();
}

#[tokio::test]
async fn a_cognet_of_one_file_has_no_modules_of_its_own_but_the_libraries() {
    let text = "defineCognet { name = 'x', version = '1', abi = '9' }\nassert(#require('@axon/uuid').v7() == 36)\nrequire('./y')";
    let error = Cognet::file("x.lua", text).load(&FakeKernel::new()).await.err().unwrap();
    assert_eq!(error.code, "REQUIRE_REFUSED");
    assert_eq!(error.at.unwrap().file, "cognets/x.lua");
}
