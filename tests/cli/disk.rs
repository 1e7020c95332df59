//! A disk that is full, as a cognet and its user meet it.

use std::process::{Command, Stdio};

use crate::support::{Agent, axon, finish, of_kind};

const TALKER: &str = "\
defineCognet { name = \"talker\", version = \"1\", abi = \"9\" }
local seen = -1
local count, length = 0, 0
-- What it knows comes from the log alone, whether it was there or not.
local function sync()
	for _, entry in kernel.store.session.get { after = seen } do
		seen = entry.time.seq
		count += 1
		length += #(entry.data.content or \"\")
	end
end
loop(function(wake)
	wake.stop()
	sync()
	local said = wake.stimuli[#wake.stimuli].data.content
	if said == \"flood\" then
		for n = 1, 1000 do
			kernel.output(\"cognet:output:text\", { content = string.rep(\"x\", 1000) })
		end
	end
	kernel.output(\"cognet:output:text\", { content = `{count} entries, {length} bytes` })
end)
";

#[test]
fn a_full_disk_fails_the_verb_and_the_wake_and_a_new_run_continues() {
    let agent = Agent::with(&[("cognets/talker.lua", TALKER)]);
    let mut shell = Command::new("sh");
    // A limit on the size of files stands for the full disk. Unheeded, its signal would end the process.
    shell.args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\""]).arg(axon().get_program());
    shell.arg("-C").arg(agent.path()).args(["run", "--json", "--session", "s", "flood"]);
    shell.env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = finish(shell.spawn().expect("a shell"));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let last: serde_json::Value = serde_json::from_str(ran.stdout.lines().last().expect("a line")).expect("JSON");
    let message = last["error"]["message"].as_str().expect("a message");
    assert!(message.contains("writing ") && message.contains("File too large"), "{message}");

    // What was printed had been acknowledged.
    let acknowledged = ran.stdout.lines().filter(|line| !line.contains("\"error\"")).count();
    let log = agent.log();
    assert_eq!(of_kind(&log, "cognet:output:text").len() + 1, acknowledged);
    let next = agent.run(&["run", "--session", "s", "on"]);
    assert_eq!(next.code, Some(0), "{next:?}");
    assert!(next.stdout.starts_with(&format!("{} entries, ", acknowledged + 1)), "{next:?}");
    let log = agent.log();
    assert!(log.iter().enumerate().all(|(seq, envelope)| envelope["time"]["seq"] == seq));
}

#[test]
fn a_brain_that_starts_anew_says_what_one_that_stayed_says() {
    let words = ["one", "two two", "three\u{e9}", "four"];
    let stayed = Agent::with(&[("cognets/talker.lua", TALKER)]);
    let live = stayed.run_with_input(&["chat"], &(words.join("\n") + "\n"));
    assert_eq!(live.code, Some(0), "{live:?}");
    let restarted = Agent::with(&[("cognets/talker.lua", TALKER)]);
    let anew: String = words.iter().map(|words| restarted.run(&["run", "--session", "s", words]).stdout).collect();
    assert_eq!(anew, live.stdout);
    assert_eq!(anew.lines().count(), words.len());
}
