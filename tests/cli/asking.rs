//! The rule `ask`, answered at a terminal.

use crate::{
    support::{Agent, of_kind},
    terminal::Terminal,
};

const RULES: &str = "[policy]\nrun = [\"sh\"]\n[policy.fs]\nread = [\".\"]\nwrite = [\"work\"]\n\
    [policy.tools]\n\"fs.write\" = \"ask\"\n\"fs.edit\" = \"ask\"\n\"process.run\" = \"ask\"\n";

const QUESTION: &str = "[o]nce, for this [s]ession, or [n]o, then Enter: ";

fn agent() -> Agent {
    Agent::with(&[("axon.toml", RULES), ("work/a.txt", "one\ntwo\nthree\n")])
}

fn exec(agent: &Agent, code: &str) -> Terminal {
    Terminal::start(agent.command(&["exec", "-e", code]))
}

#[test]
fn once_is_asked_again_and_the_question_shows_the_difference() {
    let agent = agent();
    let mut terminal = exec(
        &agent,
        "await fs.edit('work/a.txt', { find: 'two', replace: '2' }); await fs.write('work/b.txt', 'new\\n')",
    );
    let question = terminal.shows(QUESTION);
    assert!(
        question.contains("fs.edit(\"work/a.txt\")") && question.contains("policy.tools.\"fs.edit\""),
        "{question}"
    );
    assert!(question.contains("-two\n") && question.contains("+2\n") && question.contains(" one\n"), "{question}");
    assert_eq!(agent.read("work/a.txt"), "one\ntwo\nthree\n", "nothing is done before the answer");
    terminal.types("o\n");
    let question = terminal.shows(QUESTION);
    assert!(question.contains("fs.write(\"work/b.txt\")") && question.contains("+new\n"), "{question}");
    terminal.types("yes\n");
    let (status, screen) = terminal.ends();
    assert_eq!(status.code(), Some(0), "{screen}");
    assert_eq!((agent.read("work/a.txt"), agent.read("work/b.txt")), ("one\n2\nthree\n".into(), "new\n".into()));
    let log = agent.log();
    assert_eq!((of_kind(&log, "capsule:policy:asked").len(), of_kind(&log, "capsule:policy:allowed").len()), (2, 2));
}

#[test]
fn for_the_session_is_asked_once() {
    let agent = agent();
    let mut terminal = exec(&agent, "for (const n of [1, 2, 3]) await fs.write('work/a.txt', String(n)); 'written'");
    terminal.shows(QUESTION);
    terminal.types("s\n");
    let (status, screen) = terminal.ends();
    assert_eq!((status.code(), screen.matches(QUESTION).count()), (Some(0), 1), "{screen}");
    assert_eq!(agent.read("work/a.txt"), "3");
}

#[test]
fn a_no_and_an_unclear_answer_deny_the_call_and_the_block_goes_on() {
    for answer in ["n\n", "\n", "what?\n", "\u{4}"] {
        let agent = agent();
        let code = "try { await fs.write('work/a.txt', 'x') } catch (e) { `${e.name} ${e.code}: ${e.message}` }";
        let mut terminal = exec(&agent, code);
        terminal.shows(QUESTION);
        terminal.types(answer);
        let (status, screen) = terminal.ends();
        assert_eq!(status.code(), Some(0), "{screen}");
        assert!(screen.contains("PolicyDenied POLICY_DENIED") && screen.contains("who said no"), "{screen}");
        assert_eq!(agent.read("work/a.txt"), "one\ntwo\nthree\n");
    }
}

#[test]
fn ctrl_c_at_a_question_means_no_and_ends_nothing_else() {
    let agent = agent();
    let code = "let e; try { await fs.write('work/a.txt', 'x') } catch (x) { e = x.code } [e, 'still here']";
    let mut terminal = exec(&agent, code);
    terminal.shows(QUESTION);
    terminal.types("\u{3}");
    let (status, screen) = terminal.ends();
    assert_eq!(status.code(), Some(0), "{screen}");
    assert!(screen.contains("POLICY_DENIED") && screen.contains("still here"), "{screen}");
}

#[test]
fn what_was_typed_before_the_question_is_no_answer_to_it() {
    let agent = agent();
    let code = "console.log('busy'); const end = performance.now() + 300; while (performance.now() < end); \
        await fs.write('work/a.txt', 'x').catch(e => e.code)";
    let mut terminal = exec(&agent, code);
    terminal.types("o\n");
    terminal.shows(QUESTION);
    terminal.types("n\n");
    let (_, screen) = terminal.ends();
    assert!(screen.contains("POLICY_DENIED"), "{screen}");
}

#[test]
fn a_program_is_asked_for_with_every_argument() {
    let agent = agent();
    let mut terminal = exec(&agent, "(await process.run('sh', ['-c', 'echo ran\\nexit 0'], { cwd: 'work' })).stdout");
    let question = terminal.shows(QUESTION);
    assert!(question.contains("process.run(\"sh\", [\"-c\",\"echo ran\\nexit 0\"])"), "{question}");
    assert!(question.contains("\"cwd\": \"work\""), "{question}");
    terminal.types("o\n");
    let (_, screen) = terminal.ends();
    assert!(screen.contains("\nran\n"), "{screen}");
}

#[test]
fn without_a_terminal_a_question_is_a_denial_that_says_so() {
    let agent = agent();
    let ran = agent.run(&["exec", "-e", "await fs.write('work/a.txt', 'x')"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("POLICY_DENIED") && ran.stderr.contains("nobody is there to ask"), "{ran:?}");
}
