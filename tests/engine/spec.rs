//! Which engine a configuration gives.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use axon::engine::{Engine, EngineConfigError, EngineSpec, Timeouts};

use crate::support::{Facts, no_env};

fn make(spec: EngineSpec, env: &dyn Fn(&str) -> Option<String>) -> Result<Engine, EngineConfigError> {
    Engine::from_spec(spec, Path::new("."), env, Arc::new(Facts::default()))
}

fn refused(spec: EngineSpec) -> String {
    make(spec, &no_env).expect_err("an error").to_string()
}

fn openai() -> EngineSpec {
    EngineSpec { model: Some("gpt-5.2".to_owned()), ..EngineSpec::default() }
}

#[test]
fn an_unknown_provider_names_its_neighbour_and_the_accepted_ones() {
    let message = refused(EngineSpec { provider: Some("opanai".to_owned()), ..openai() });
    assert_eq!(
        message,
        "there is no engine provider \"opanai\", did you mean \"openai\"? Accepted: openai, replay, script"
    );
    let message = refused(EngineSpec { provider: Some("gemini".to_owned()), ..openai() });
    assert_eq!(message, "there is no engine provider \"gemini\". Accepted: openai, replay, script");
}

#[test]
fn what_is_missing_is_named_with_the_way_to_set_it() {
    assert!(refused(EngineSpec::default()).contains("no engine is configured"));
    let message = refused(EngineSpec { provider: Some("openai".to_owned()), ..EngineSpec::default() });
    assert!(message.contains("`model`") && message.contains("openai:MODEL"), "{message}");
    let message = refused(EngineSpec { provider: Some("script".to_owned()), ..EngineSpec::default() });
    assert!(message.contains("`script`") && message.contains("script:FILE"), "{message}");
}

#[test]
fn openai_needs_a_key_and_other_servers_do_not() {
    let message = refused(openai());
    assert!(message.contains("OPENAI_API_KEY") && message.contains(".env"), "{message}");
    let env = |name: &str| (name == "OPENAI_API_KEY").then(|| " sk-1 \n".to_owned());
    assert_eq!(make(openai(), &env).unwrap().describe(), ("openai", "gpt-5.2"));

    let local = EngineSpec { base_url: Some("http://127.0.0.1:11434/v1".to_owned()), ..openai() };
    assert!(make(local.clone(), &no_env).is_ok());
    let message = refused(EngineSpec { api_key_env: Some("MY_KEY".to_owned()), ..local.clone() });
    assert!(message.contains("MY_KEY"), "{message}");
    let empty = |_: &str| Some(String::new());
    assert!(make(EngineSpec { api_key_env: Some("MY_KEY".to_owned()), ..local }, &empty).is_err());
}

#[test]
fn a_key_that_cannot_be_sent_is_not_shown() {
    let env = |_: &str| Some("sk-sec\nret".to_owned());
    let message = make(openai(), &env).unwrap_err().to_string();
    assert!(message.contains("OPENAI_API_KEY") && !message.contains("sec"), "{message}");
}

#[test]
fn addresses_and_headers_are_checked() {
    for base_url in ["nonsense", "ftp://x/v1", ""] {
        let message = refused(EngineSpec { base_url: Some(base_url.to_owned()), ..openai() });
        assert!(message.contains("`base_url`"), "{message}");
    }
    let headers = BTreeMap::from([("no header".to_owned(), "x".to_owned())]);
    let local = EngineSpec { base_url: Some("http://localhost/v1".to_owned()), headers, ..openai() };
    assert!(refused(local).contains("no header"));
}

#[test]
fn the_command_line_names_a_model_or_a_file() {
    let mut spec = EngineSpec::default();
    spec.override_with("openai:gpt-5.2:free").unwrap();
    assert_eq!((spec.provider.as_deref(), spec.model.as_deref()), (Some("openai"), Some("gpt-5.2:free")));
    spec.override_with("openai").unwrap();
    assert_eq!(spec.model.as_deref(), Some("gpt-5.2:free"));
    spec.override_with("script:nowhere.json").unwrap();
    assert_eq!(spec.script.as_deref(), Some(Path::new("nowhere.json")), "looked up in the agent folder");
    spec.override_with("script:Cargo.toml").unwrap();
    assert!(spec.script.unwrap().is_absolute(), "a file that is here is that file");
}

#[test]
fn the_command_line_drops_what_was_configured_for_another_provider() {
    let timeouts = Timeouts { silence: std::time::Duration::from_secs(1), ..Timeouts::default() };
    let configured = EngineSpec {
        base_url: Some("http://localhost/v1".to_owned()),
        api_key_env: Some("KEY".to_owned()),
        timeouts,
        ..openai()
    };
    let mut spec = configured.clone();
    spec.override_with("openai:other").unwrap();
    assert_eq!(spec.base_url, configured.base_url, "the same provider, another model");

    let mut spec = configured;
    spec.override_with("script:nowhere.json").unwrap();
    assert_eq!((spec.base_url, spec.model, spec.timeouts), (None, None, timeouts));

    let mut spec = EngineSpec { provider: Some("later".to_owned()), ..openai() };
    spec.override_with("openai:other").unwrap();
    assert_eq!(spec.provider.as_deref(), Some("openai"));
}

#[test]
fn a_wrong_command_line_says_what_is_right() {
    for (given, part) in [
        ("later:file", "Accepted: openai, replay, script"),
        ("scripts:f", "did you mean \"script\"?"),
        ("openai:", "PROVIDER:ARGUMENT"),
        ("", "Accepted: openai, replay, script"),
    ] {
        let message = EngineSpec::default().override_with(given).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}
