//! A real provider: chat completions over HTTP, against a server on this machine.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    thread,
};

use serde_json::{Value, json};

use crate::support::{Agent, of_kind};

/// Answers `answers` in order and hands back the request bodies and the authorisation that came with them.
fn serve(answers: Vec<Vec<&'static str>>) -> (String, thread::JoinHandle<Vec<(Value, String)>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let server = thread::spawn(move || {
        let mut seen = Vec::new();
        for deltas in answers {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
            let (mut length, mut key) = (0, String::new());
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a header");
                let lower = line.to_ascii_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                if lower.starts_with("authorization:") {
                    key = line["authorization:".len()..].trim().to_owned();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            seen.push((serde_json::from_slice(&body).expect("JSON"), key));
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
                .expect("a client");
            for delta in deltas {
                let event = json!({ "choices": [{ "index": 0, "delta": { "content": delta } }] });
                write!(stream, "data: {event}\n\n").expect("a client");
                stream.flush().expect("a client");
            }
            let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
            let usage = json!({ "choices": [], "usage": { "prompt_tokens": 12, "completion_tokens": 7 } });
            write!(stream, "data: {end}\n\ndata: {usage}\n\ndata: [DONE]\n\n").expect("a client");
        }
        seen
    });
    (address, server)
}

#[test]
fn zero_talks_with_an_openai_compatible_server_and_its_key_stays_out_of_the_log() {
    let (address, server) = serve(vec![
        vec!["<typescript>(await fs.read('secret", "-free.txt')).trim()</typescript>"],
        vec!["<text>It says ", "hello.</text><done/>"],
    ]);
    let agent = Agent::with(&[
        (
            "axon.toml",
            &format!(
                "[agent]\ncognet = \"@axon/zero\"\n[engine]\nprovider = \"openai\"\nmodel = \"test-model\"\nbase_url = {address:?}\napi_key_env = \"TEST_KEY\"\n[policy.fs]\nread = [\".\"]\n"
            ),
        ),
        (".env", "TEST_KEY=sk-very-secret\n"),
        ("secret-free.txt", "hello\n"),
        ("boot.md", "You are terse."),
    ]);
    let ran = agent.run(&["run", "What does the file say?"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "It says hello.\n"), "{ran:?}");
    let seen = server.join().expect("the server ends");
    assert_eq!(seen.len(), 2);
    let (request, key) = &seen[1];
    assert_eq!(key, "Bearer sk-very-secret");
    assert_eq!((&request["model"], &request["stream"]), (&json!("test-model"), &json!(true)));
    let context = request["messages"].to_string();
    for words in ["You are terse.", "What does the file say?", "hello", "read("] {
        assert!(context.contains(words), "{words} in {context}");
    }
    let log = agent.log();
    let complete = of_kind(&log, "kernel:engine:complete");
    assert_eq!(complete[0]["data"]["usage"]["input"], 12);
    let text = std::fs::read_to_string(&agent.sessions()[0]).expect("a log");
    assert!(!text.contains("sk-very-secret"));
}
