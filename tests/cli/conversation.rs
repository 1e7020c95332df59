//! `chat` and `dev` on a terminal: what is on the screen, and what the keys do.

use std::{
    io::{Read, Write},
    num::NonZeroU16,
    sync::{Arc, Mutex},
};

use portable_pty::{CommandBuilder, MasterPty, PtySize, native_pty_system};
use serde_json::Value;

use crate::{
    minds::{SLOW_MODEL, brain, slow_brain, stimuli},
    support::{Agent, of_kind, read_log, until},
};

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const UP: &str = "\x1b[A";
const ENTER: &str = "\r";

/// The program on a terminal of its own.
struct Terminal<'a> {
    agent: &'a Agent,
    child: Box<dyn portable_pty::Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    writer: Arc<Mutex<Box<dyn Write + Send>>>,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl<'a> Terminal<'a> {
    fn start_in_any_state(agent: &'a Agent, (rows, cols): (u16, u16), args: &[&str]) -> Self {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).expect("a terminal");
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_axon"));
        command.arg("-C");
        command.arg(agent.path());
        command.args(args);
        command.env("TERM", "xterm-256color");
        command.env("NO_COLOR", "1");
        command.env_remove("RUST_LOG");
        let child = pair.slave.spawn_command(command).expect("axon starts");
        let mut reader = pair.master.try_clone_reader().expect("a reader");
        let writer = Arc::new(Mutex::new(pair.master.take_writer().expect("a writer")));
        let at_least_one = |n| NonZeroU16::new(n).expect("not nothing");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(at_least_one(rows), at_least_one(cols), 1_000)));
        let (answers, shown) = (writer.clone(), screen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end of the program is an error here.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                let mut screen = shown.lock().expect("a screen");
                screen.process(&bytes[..count]);
                // As terminals do when they are asked where the cursor is.
                for _ in 0..String::from_utf8_lossy(&bytes[..count]).matches("\x1b[6n").count() {
                    let (row, col) = screen.screen().cursor_position();
                    let answer = format!("\x1b[{};{}R", row + 1, col + 1);
                    let _ = answers.lock().expect("a writer").write_all(answer.as_bytes());
                }
            }
        });
        Self { agent, child, master: pair.master, writer, screen }
    }

    fn start(agent: &'a Agent, size: (u16, u16), args: &[&str]) -> Self {
        let terminal = Self::start_in_any_state(agent, size, args);
        terminal.until_prompt();
        terminal
    }

    fn type_in(&self, keys: &str) {
        let mut writer = self.writer.lock().expect("a writer");
        writer.write_all(keys.as_bytes()).and_then(|()| writer.flush()).expect("keys");
    }

    fn enter(&self, line: &str) {
        self.type_in(line);
        self.type_in(ENTER);
    }

    /// The rows of the screen, without the space at their ends.
    fn rows(&self) -> Vec<String> {
        let screen = self.screen.lock().expect("a screen");
        let cols = screen.screen().size().1.get();
        screen.screen().rows(0, cols).map(|row| row.trim_end().to_owned()).collect()
    }

    fn text(&self) -> String {
        self.rows().join("\n").trim_end().to_owned()
    }

    fn until(&self, what: &str) {
        until(&format!("{what:?} on the screen"), || self.text().contains(what).then_some(()));
    }

    /// Waits until a line can be typed.
    fn until_prompt(&self) {
        until("the prompt", || {
            let text = self.text();
            (text.lines().last()?.trim_end() == ">").then_some(())
        });
    }

    fn log(&self) -> Vec<Value> {
        self.agent.sessions().first().map(|path| read_log(path)).unwrap_or_default()
    }

    fn until_logged(&self, wanted: &str, count: usize) {
        until(wanted, || (of_kind(&self.log(), wanted).len() >= count).then_some(()));
    }

    fn end(mut self) -> u32 {
        let code = until("the end", || self.child.try_wait().expect("the child is ours")).exit_code();
        assert!(self.echoes(), "the terminal is as it was");
        code
    }

    /// Whether the terminal shows what is typed, as it does for a shell.
    fn echoes(&self) -> bool {
        let termios = self.master.get_termios().expect("a terminal");
        let fd = self.master.as_raw_fd();
        assert!(fd.is_some());
        format!("{:?}", termios.local_flags).contains("ECHO") && format!("{:?}", termios.local_flags).contains("ICANON")
    }
}

/// Numbers of milliseconds are not what a transcript is about.
fn timeless(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(" ms") {
        let digits = rest[..at].trim_end_matches(|c: char| c.is_ascii_digit());
        out.push_str(digits);
        out.push_str("N ms");
        rest = &rest[at + 3..];
    }
    out + rest
}

const ANSWER: &str = "<text>The **answer** to everything that was ever asked, as far as anybody has found out, is:\\n漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字\\n- `6 * 7`</text>";

/// An agent whose model talks, runs a block and talks again.
fn talker() -> Agent {
    let model = format!(
        r#"{{"calls":[{{"text":"{ANSWER}<typescript>const a = 6\nconst text = await fs.read('boot.md')\na * 7</typescript>","chunk":7}},{{"text":"<text>So it is ${{last_result}}.</text><done/>","chunk":3}}]}}"#
    );
    Agent::with(&[
        ("model.json", &model),
        ("boot.md", "me"),
        (
            "axon.toml",
            "[agent]\ncognet = \"@axon/zero\"\n[engine]\nprovider = \"script\"\nscript = \"model.json\"\n[policy.fs]\nread = [\".\"]\n[policy.tools]\n\"fs.read\" = \"allow\"\n",
        ),
    ])
}

#[test]
fn a_conversation_reads_well_on_an_ordinary_and_on_a_large_window() {
    let narrow = "\
> what is it?
The **answer** to everything that was ever asked, as far as anybody has found
out, is:
漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字
漢字漢字
- `6 * 7`
✓ const a = 6 +2 · fs.read · N ms → 42
So it is 42.
>";
    let wide = "\
> what is it?
The **answer** to everything that was ever asked, as far as anybody has found out, is:
漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字
- `6 * 7`
✓ const a = 6 +2 · fs.read · N ms → 42
So it is 42.
>";
    for (size, expected) in [((24, 80), narrow), ((50, 200), wide)] {
        let agent = talker();
        let terminal = Terminal::start(&agent, size, &["chat"]);
        terminal.enter("what is it?");
        terminal.until("So it is 42.");
        terminal.until_prompt();
        let text = timeless(&terminal.text());
        let (greeting, conversation) = text.split_once('\n').expect("a greeting first");
        assert!(greeting.starts_with("@axon/zero · session ") && greeting.ends_with("/help"), "{greeting}");
        assert_eq!(conversation, expected, "at {size:?}");
        terminal.type_in(CTRL_D);
        assert_eq!(terminal.end(), 0);
    }
}

#[test]
fn a_narrow_window_and_wide_characters_in_the_line_keep_their_order() {
    let agent = Agent::empty();
    let terminal = Terminal::start(&agent, (30, 24), &["chat", "--cognet", "@axon/echo"]);
    let said = "漢字を書く人は長い行を書く";
    terminal.enter(said);
    until("typed and answered", || {
        let text: String = terminal.rows().concat();
        (text.matches("漢字を書く人は").count() == 2).then_some(())
    });
    terminal.until_prompt();
    assert_eq!(stimuli(&terminal.log()), [said]);
    terminal.enter("/exit");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_pasted_text_of_many_lines_is_one_stimulus_and_what_was_typed_before_comes_back() {
    let agent = Agent::empty();
    let terminal = Terminal::start(&agent, (24, 80), &["chat", "--cognet", "@axon/echo"]);
    terminal.type_in("\x1b[200~one\ntwo\nthree\x1b[201~");
    terminal.until("three");
    terminal.type_in(ENTER);
    terminal.until_logged("kernel:run:complete", 1);
    terminal.until_prompt();
    terminal.type_in(UP);
    until("the history", || (terminal.text().matches("three").count() >= 3).then_some(()));
    terminal.type_in(ENTER);
    terminal.until_logged("kernel:run:complete", 2);
    assert_eq!(stimuli(&terminal.log()), ["one\ntwo\nthree", "one\ntwo\nthree"]);
    terminal.until_prompt();
    terminal.type_in(CTRL_D);
    assert_eq!(terminal.end(), 0);
    assert!(agent.path().join(".axon/history").exists(), "the history is the agent's");
}

#[test]
fn commands_tell_about_the_session_and_are_not_stimuli() {
    let agent = talker();
    let terminal = Terminal::start(&agent, (50, 120), &["chat", "--session", "mine"]);
    for (command, expected) in [
        ("/help", "/reload"),
        ("/scope", "fs"),
        ("/cost", "0 calls of the engine"),
        ("/session", "session mine"),
        ("/scop", "did you mean /scope?"),
        ("/reload", "reloaded in"),
    ] {
        terminal.enter(command);
        terminal.until(expected);
        terminal.until_prompt();
    }
    terminal.enter("hello");
    terminal.until("So it is 42.");
    terminal.until_prompt();
    terminal.enter("/log");
    terminal.until("you │ hello");
    terminal.until_prompt();
    assert_eq!(stimuli(&terminal.log()), ["hello"]);
    terminal.enter("/exit");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn ctrl_c_interrupts_the_wake_and_a_second_one_leaves() {
    let model = r#"{"calls":[{"text":"<text>slowly, slowly</text><done/>","chunk":4,"delay_ms":1},{"text":"<text>never said</text>","chunk":1,"delay_ms":60000}]}"#;
    let agent = Agent::with(&[("model.json", model)]);
    let script = format!("script:{}", agent.path().join("model.json").display());
    let terminal = Terminal::start(&agent, (24, 80), &["chat", "--cognet", "@axon/zero", "--engine", &script]);
    terminal.enter("one");
    terminal.until("slowly, slowly");
    terminal.until_prompt();
    terminal.enter("two");
    terminal.until("thinking");
    terminal.type_in(CTRL_C);
    terminal.until("■ interrupted by the user");
    terminal.until_prompt();
    assert!(!terminal.text().contains("thinking"), "the sign is gone: {}", terminal.text());
    assert_eq!(of_kind(&terminal.log(), "kernel:run:interrupted").len(), 1);
    assert!(terminal.text().contains("Ctrl-C once more leaves"), "{}", terminal.text());
    terminal.type_in(CTRL_C);
    assert_eq!(terminal.end(), 0);
}

#[test]
fn between_two_wakes_ctrl_c_takes_a_line_that_was_begun_and_then_twice_leaves() {
    let agent = Agent::empty();
    let terminal = Terminal::start(&agent, (24, 80), &["chat", "--cognet", "@axon/echo"]);
    for begun in ["half a line", "another\x1b\rof two rows", &"long ".repeat(30)] {
        terminal.type_in(begun);
        terminal.until(begun.split('\x1b').next().expect("a row").trim_end().get(..11).unwrap_or("another"));
        terminal.type_in(CTRL_C);
        terminal.until_prompt();
        assert!(!terminal.text().contains("once more leaves"), "{}", terminal.text());
    }
    terminal.type_in(CTRL_C);
    terminal.until("Ctrl-C once more leaves");
    terminal.until_prompt();
    terminal.enter("still here");
    terminal.until_logged("kernel:run:complete", 1);
    terminal.until_prompt();
    terminal.type_in(CTRL_C);
    until("told again", || (terminal.text().matches("once more leaves").count() == 2).then_some(()));
    terminal.until_prompt();
    terminal.type_in(CTRL_C);
    assert_eq!(stimuli(&terminal.log()), ["still here"]);
    assert_eq!(terminal.end(), 0);
}

/// Blocks that do not end.
const ENDLESS: &str = "await new Promise(() => setInterval(() => {}, 1000))";

#[test]
fn what_is_typed_during_a_wake_that_ctrl_c_ends_is_answered_next_and_a_line_begun_is_gone_on_with() {
    for command in ["chat", "dev"] {
        let agent = Agent::empty();
        let terminal = Terminal::start(&agent, (40, 100), &[command, "--cognet", "@axon/repl"]);
        terminal.enter(ENDLESS);
        terminal.until_logged("capsule:block:start", 1);
        terminal.enter("\"waiting1\"");
        terminal.enter("\"waiting2\"");
        terminal.type_in("\"half");
        terminal.until("what was typed waits its turn");
        terminal.type_in(CTRL_C);
        terminal.until("→ waiting2");
        terminal.until("> \"half");
        terminal.enter(" a line\"");
        terminal.until("→ half a line");
        terminal.until_prompt();
        assert_eq!(stimuli(&terminal.log()), [ENDLESS, "\"waiting1\"", "\"waiting2\"", "\"half a line\""], "{command}");
        assert_eq!(of_kind(&terminal.log(), "kernel:run:interrupted").len(), 1, "{command}");
        terminal.type_in(CTRL_D);
        assert_eq!(terminal.end(), 0);
        let history = agent.read(".axon/history");
        assert!(history.contains("waiting1") && history.contains("half a line"), "{history}");
    }
}

#[test]
fn a_second_ctrl_c_during_a_wake_that_does_not_end_leaves_the_terminal_as_it_was() {
    let deaf = "defineCognet { name = \"deaf\", version = \"1\", abi = \"9\" }\nloop(function(wake)\n\twhile true do pcall(kernel.run, \"await new Promise(() => {})\") end\nend)\n";
    let agent = Agent::with(&[("cognets/deaf.lua", deaf)]);
    let terminal = Terminal::start(&agent, (24, 80), &["chat"]);
    terminal.enter("one");
    terminal.until_logged("capsule:block:start", 1);
    // Two that come at once are one.
    let mut terminal = terminal;
    until("the end", || {
        terminal.type_in(CTRL_C);
        terminal.child.try_wait().expect("the child is ours")
    });
    assert_eq!(terminal.end(), 130);
    let left = std::fs::read_dir(agent.path().join("data/sessions")).expect("the sessions");
    let left: Vec<_> = left.map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(left, agent.sessions(), "no file stays that says who holds the session");
}

#[test]
fn in_dev_a_save_during_a_wake_is_the_next_answers_and_what_is_typed_meanwhile_is_kept() {
    let agent = Agent::with(&[("cognets/mind.lua", &slow_brain("old")), ("model.json", SLOW_MODEL)]);
    let script = format!("script:{}", agent.path().join("model.json").display());
    let terminal = Terminal::start(&agent, (24, 80), &["dev", "--engine", &script]);
    terminal.until("mind · generation 1");
    terminal.enter("a");
    terminal.until_logged("kernel:engine:start", 1);
    agent.write("cognets/mind.lua", &slow_brain("new"));
    terminal.enter("b");
    terminal.enter("c");
    terminal.until("new:c");
    terminal.until_prompt();
    let text = terminal.text();
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what:?} in {text}"));
    let order = ["old:a", "reloaded in", "new:b", "new:c", "mind · generation 2"];
    assert!(order.map(place).is_sorted(), "{text}");
    // While nothing goes on, a broken file is told of above the line that is being typed.
    terminal.type_in("half a li");
    terminal.until("> half a li");
    agent.write("cognets/mind.lua", "loop(\n");
    terminal.until("COGNET_SYNTAX cognets/mind.lua:");
    terminal.until("> half a li");
    terminal.enter("ne");
    terminal.until("new:half a line");
    terminal.until_prompt();
    agent.write("cognets/mind.lua", &slow_brain("mended"));
    terminal.until("mind · generation 3");
    assert!(!terminal.text().lines().rev().take(2).any(|line| line.contains("COGNET_SYNTAX")), "{}", terminal.text());
    assert_eq!(stimuli(&terminal.log()), ["a", "b", "c", "half a line"]);
    terminal.type_in(CTRL_D);
    assert_eq!(terminal.end(), 0);
}

#[test]
fn the_line_above_the_prompt_is_of_the_last_reload_without_a_key_being_pressed() {
    let agent = Agent::with(&[("cognets/mind.lua", &brain("1"))]);
    let terminal = Terminal::start(&agent, (50, 100), &["dev"]);
    let stands = |what: &str| {
        until(what, || {
            let text = terminal.text();
            let mut rows = text.lines().rev();
            (rows.next()?.trim_end() == ">" && rows.next()?.contains(what)).then_some(())
        });
    };
    for generation in 2..6 {
        agent.write("cognets/mind.lua", &brain(&generation.to_string()));
        stands(&format!("mind · generation {generation} · reloaded in"));
    }
    agent.write("cognets/mind.lua", "loop(\n");
    stands("✗ COGNET_SYNTAX cognets/mind.lua:");
    agent.write("cognets/mind.lua", &brain("mended"));
    stands("mind · generation 6 · reloaded in");
    assert!(!terminal.text().lines().rev().nth(1).expect("a row").contains('✗'), "{}", terminal.text());
    terminal.type_in(CTRL_D);
    assert_eq!(terminal.end(), 0);
}

#[test]
fn in_dev_what_a_cognet_prints_is_shown_and_the_tables_that_it_leaves_for_programs_are_not() {
    let says = "kernel.emit(\"cognet:log:info\", { value = { a = \"table\" } })\nprint(\"printed\", { b = 1 })\n";
    let agent = Agent::with(&[("cognets/mind.lua", &(brain("1") + says))]);
    let terminal = Terminal::start(&agent, (40, 100), &["dev"]);
    terminal.until("· printed\t{b = 1}".replace('\t', " ").split(' ').nth(1).expect("a word"));
    assert!(!terminal.text().contains("\"table\""), "{}", terminal.text());
    terminal.type_in(CTRL_D);
    assert_eq!(terminal.end(), 0);
    let agent = Agent::empty();
    assert_eq!(agent.run(&["clone", "@axon/zero", "mind"]).code, Some(0));
    let terminal = Terminal::start(&agent, (40, 100), &["dev"]);
    terminal.until("mind · generation 1");
    assert!(!terminal.text().contains("· {"), "nothing has happened: {}", terminal.text());
    terminal.type_in(CTRL_D);
    assert_eq!(terminal.end(), 0);
}

#[test]
fn who_waits_for_an_agent_that_does_not_load_can_leave_and_what_they_type_is_kept() {
    const UNTYPED: &str = "export function f(x) { return x; }\n";
    for (file, text) in [("cognets/mind.lua", "loop("), ("tools/t.ts", UNTYPED), ("axon.toml", "x = 1\n")] {
        for leave in [CTRL_D, "/exit\r", CTRL_C] {
            let agent = Agent::with(&[("cognets/mind.lua", &brain("1")), (file, text)]);
            let terminal = Terminal::start_in_any_state(&agent, (40, 100), &["dev"]);
            terminal.until(&format!("waiting for a change of {file}; /exit or Ctrl-D leaves"));
            terminal.until_prompt();
            terminal.type_in(leave);
            assert_eq!(terminal.end(), if leave == CTRL_C { 130 } else { 0 }, "{file}");
        }
    }
    let agent = Agent::with(&[("cognets/mind.lua", "loop(")]);
    let terminal = Terminal::start_in_any_state(&agent, (40, 100), &["dev"]);
    terminal.until("waiting for a change");
    terminal.until_prompt();
    terminal.enter("hello");
    terminal.until_prompt();
    agent.write("cognets/mind.lua", &brain("now"));
    terminal.until("now:hello");
    terminal.until_prompt();
    terminal.type_in(CTRL_D);
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_conversation_is_asked_in_between_and_goes_on() {
    const QUESTION: &str = "[o]nce, for this [s]ession, or [n]o, then Enter:";
    let rules = "[policy.fs]\nread = [\".\"]\nwrite = [\"work\"]\n[policy.tools]\n\"fs.write\" = \"ask\"\n";
    let agent = Agent::with(&[("axon.toml", rules), ("work/a.txt", "one\n")]);
    let terminal = Terminal::start(&agent, (80, 100), &["chat", "--cognet", "@axon/repl"]);
    let until_asked = |count: usize| {
        until("a question", || (terminal.text().matches(QUESTION).count() == count).then_some(()));
    };
    for (content, answer, outcome, count) in
        [("first", "n", "POLICY_DENIED", 1), ("second", "o", "✓ await fs.write", 2)]
    {
        terminal.enter(&format!("await fs.write('work/a.txt', '{content}')"));
        until_asked(count);
        terminal.until_prompt();
        assert!(terminal.text().contains("fs.write(\"work/a.txt\")"), "{}", terminal.text());
        terminal.enter(answer);
        terminal.until(outcome);
        terminal.until_prompt();
        terminal.enter("/help");
        terminal.until_prompt();
    }
    assert_eq!(agent.read("work/a.txt"), "second");
    // What was typed before a question is no answer to it, and is said to the agent once it is answered.
    let busy = "await new Promise(done => setTimeout(done, 700)); await fs.write('work/a.txt', 'third')";
    terminal.enter(busy);
    terminal.until_logged("capsule:block:start", 3);
    terminal.enter("'o' + 'k'");
    terminal.type_in("20 +");
    until_asked(3);
    terminal.until_prompt();
    // One answer too many is not said to the agent.
    terminal.type_in("n\ro\r");
    terminal.until("no question is open: o was not said");
    terminal.until("→ ok");
    terminal.until("> 20 +");
    terminal.enter(" 22");
    terminal.until("→ 42");
    terminal.until_prompt();
    terminal.type_in(CTRL_D);
    assert_eq!(terminal.end(), 0);
}
