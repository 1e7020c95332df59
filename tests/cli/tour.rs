//! The demo: the tour agent over a repository.

use std::{fs, path::Path};

use crate::support::{Agent, of_kind, read_log};

#[test]
fn the_tour_reads_real_files_fails_once_corrects_itself_and_answers() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let copy = Agent::empty();
    let readme = fs::read_to_string(repository.join("README.md")).expect("a README");
    copy.write("README.md", &readme);
    for file in ["axon.toml", "boot.md", "model.json"] {
        let text = fs::read_to_string(repository.join("examples/tour").join(file)).expect("a file of the tour");
        copy.write(&format!("examples/tour/{file}"), &text);
    }
    let tour = copy.path().join("examples/tour");
    let tour = tour.to_str().expect("UTF-8");
    let ran = crate::support::finish(
        crate::support::axon()
            .args(["-C", tour, "run", "What is here?"])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("axon starts"),
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let first_heading = readme.lines().find(|line| line.starts_with('#')).expect("a heading");
    assert!(ran.stdout.contains(first_heading), "the answer comes from the file: {ran:?}");
    let sessions = fs::read_dir(copy.path().join("examples/tour/data/sessions")).expect("sessions");
    let path = sessions
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .expect("a session");
    let log = read_log(&path);
    let results: Vec<bool> =
        of_kind(&log, "cognet:action:result").iter().map(|r| r["data"]["ok"].as_bool().expect("ok")).collect();
    assert_eq!(results, [true, false, true]);
    let failed = &of_kind(&log, "cognet:action:result")[1]["data"]["error"]["message"];
    assert!(failed.as_str().expect("a message").contains("README.md"), "the error names the nearest file: {failed}");
}
