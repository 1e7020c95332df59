//! Brains and models for conversations with a cognet that is being written.

use serde_json::Value;

use crate::support::of_kind;

/// A model that takes its time.
pub const SLOW_MODEL: &str =
    r#"{"calls":[{"text":"slowly and slowly and slowly and slowly and slowly","chunk":2,"delay_ms":20}]}"#;

/// A brain that says its version and what it has heard.
pub fn brain(version: &str) -> String {
    format!(
        r#"defineCognet {{ name = "mind", version = "{version}", abi = "9", mode = {{ kind = "invocation" }} }}
loop(function(wake)
	for _, stimulus in wake.stimuli do
		kernel.output("cognet:output:text", {{ content = "{version}:" .. stimulus.data.content }})
	end
	wake.stop()
end)
"#
    )
}

/// The same after it has listened to a model.
pub fn slow_brain(version: &str) -> String {
    brain(version).replacen(
        "\tfor _,",
        "\tfor _ in kernel.stream { messages = { { role = \"user\", content = \"x\" } }, format = \"raw\", signal = wake.signal } do end\n\tfor _,",
        1,
    )
}

/// A brain that says what its model says.
pub const REPEATER: &str = r#"defineCognet { name = "repeater", version = "1", abi = "9" }
loop(function(wake)
	for event in kernel.stream { messages = { { role = "user", content = "x" } }, format = "raw" } do
		if event.type == "engine:text" then
			kernel.output("cognet:output:text", { content = event.content })
		end
	end
	wake.stop()
end)
"#;

/// What the agent has said.
pub fn said(log: &[Value]) -> Vec<String> {
    contents(log, "cognet:output:text")
}

/// What was said to the agent.
pub fn stimuli(log: &[Value]) -> Vec<String> {
    contents(log, "stimulus:text")
}

fn contents(log: &[Value], kind: &str) -> Vec<String> {
    let content = |envelope: &&Value| envelope["data"]["content"].as_str().expect("a text").to_owned();
    of_kind(log, kind).iter().map(content).collect()
}
