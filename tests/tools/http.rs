//! `http.request` against a local server, and the ways around its policy.

use std::{io::Write, time::Duration};

use axon_capsule::Datum;
use flate2::{Compression, write::GzEncoder};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    support::{Desk, Tools, o, s, tool_call},
    web::{Reply, Web, ok, with_head},
};

fn tools(web: &Web) -> (Desk, Tools) {
    let desk = Desk::furnished();
    let tools = desk.tools_for(&[&web.host()], &[]);
    (desk, tools)
}

fn field<'a>(response: &'a Datum, name: &str) -> &'a Datum {
    let Datum::Object(fields) = response else { panic!("{response:?}") };
    &fields.iter().find(|(field, _)| field == name).unwrap_or_else(|| panic!("no {name} in {response:?}")).1
}

fn body(response: &Datum) -> Vec<u8> {
    match field(response, "body") {
        Datum::Bytes(bytes) => bytes.clone(),
        other => panic!("{other:?}"),
    }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn methods_headers_and_bodies_arrive_and_so_does_the_answer() {
    let web = Web::start(|_| with_head("201 Created\r\nX-One: 1\r\nx-two: a\r\nx-two: b", [0, 159, 255]));
    let (_desk, tools) = tools(&web);
    for (method, sent) in [("POST", s("text")), ("PUT", Datum::Bytes(vec![0, 255])), ("patch", s("é"))] {
        let mut options = o(json!({ "method": method, "headers": { "X-Mine": "value", "accept": "*/*" } }));
        if let Datum::Object(fields) = &mut options {
            fields.push(("body".into(), sent));
        }
        let response = tools.call("http.request", [s(web.url("/path?q=1")), options]).await.unwrap();
        assert_eq!(field(&response, "status"), &Datum::Number(201.0));
        assert_eq!((field(&response, "ok"), field(&response, "redirected")), (&Datum::Bool(true), &Datum::Bool(false)));
        assert_eq!(field(field(&response, "headers"), "x-one"), &s("1"));
        assert_eq!(field(field(&response, "headers"), "x-two"), &s("a, b"));
        assert_eq!(body(&response), [0, 159, 255]);
    }
    let seen = web.seen();
    let lines: Vec<_> = seen.iter().map(|request| request.line.as_str()).collect();
    assert_eq!(lines, ["POST /path?q=1 HTTP/1.1", "PUT /path?q=1 HTTP/1.1", "PATCH /path?q=1 HTTP/1.1"]);
    assert_eq!(seen[1].body, [0, 255]);
    assert_eq!(seen[2].body, "é".as_bytes());
    assert!(seen[0].head.contains("x-mine: value\r\n") && seen[0].head.contains(&format!("host: {}", web.host())));
    assert!(tools.journal.kinds().contains(&"before_effect"));
    assert_eq!(tools.journal.data("capsule:policy:allowed")["rule"], format!("policy.net = \"{}\"", web.host()));
}

#[tokio::test]
async fn a_compressed_answer_arrives_unpacked() {
    let packed = gzip(b"plain text");
    let web = Web::start(move |_| with_head("200 OK\r\ncontent-encoding: gzip", &packed));
    let (_desk, tools) = tools(&web);
    let response = tools.call("http.request", [s(web.url("/"))]).await.unwrap();
    assert_eq!(body(&response), b"plain text");
    assert!(web.seen()[0].head.contains("accept-encoding: gzip"));
}

#[tokio::test]
async fn redirects_are_followed_as_browsers_follow_them() {
    let other = Web::start(|request| ok(request.head.as_bytes()));
    let elsewhere = other.url("/end");
    let web = Web::start(move |request| match request.line.split(' ').nth(1).unwrap() {
        "/303" => with_head("303 See Other\r\nlocation: /here", ""),
        "/307" => with_head("307 Temporary Redirect\r\nlocation: here", ""),
        "/away" => with_head(&format!("302 Found\r\nlocation: {elsewhere}"), ""),
        "/round" => with_head("302 Found\r\nlocation: /round", ""),
        _ => ok("here"),
    });
    let desk = Desk::furnished();
    let tools = desk.tools_for(&[&web.host(), &other.host()], &[]);
    let post = || o(json!({ "method": "POST", "body": "b", "headers": { "authorization": "k", "content-type": "t" } }));
    let response = tools.call("http.request", [s(web.url("/303")), post()]).await.unwrap();
    assert_eq!((field(&response, "url"), field(&response, "redirected")), (&s(web.url("/here")), &Datum::Bool(true)));
    tools.call("http.request", [s(web.url("/307")), post()]).await.unwrap();
    let lines: Vec<_> = web.seen().iter().map(|request| request.line.clone()).collect();
    assert_eq!(lines[..2], ["POST /303 HTTP/1.1", "GET /here HTTP/1.1"]);
    assert_eq!(lines[2..], ["POST /307 HTTP/1.1", "POST /here HTTP/1.1"]);
    assert!(web.seen()[3].head.contains("authorization: k") && web.seen()[3].body == b"b");
    // Another origin gets no credentials.
    let away =
        String::from_utf8(body(&tools.call("http.request", [s(web.url("/away")), post()]).await.unwrap())).unwrap();
    assert!(away.starts_with("get /end") && !away.contains("authorization"), "{away}");

    let manual = o(json!({ "redirect": "manual" }));
    let response = tools.call("http.request", [s(web.url("/303")), manual]).await.unwrap();
    assert_eq!(field(&response, "status"), &Datum::Number(303.0));
    let refused = tools.refusal("http.request", [s(web.url("/303")), o(json!({ "redirect": "error" }))]).await;
    assert!(refused.message.contains("redirected to /here"), "{refused}");
    let endless = tools.refusal("http.request", [s(web.url("/round"))]).await;
    assert!(endless.message.contains("more than 10 redirects"), "{endless}");
}

#[tokio::test]
async fn a_redirect_to_what_is_not_granted_is_denied_before_it_is_made() {
    let secret = Web::start(|_| ok("secret"));
    let targets = [
        secret.url("/"),
        format!("http://localhost:{}/", secret.port),
        format!("http://2130706433:{}/", secret.port),
        format!("http://[::ffff:127.0.0.1]:{}/", secret.port),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "file:///etc/passwd".to_owned(),
        "http://user:password@127.0.0.1/".to_owned(),
    ];
    for target in targets {
        let location = target.clone();
        let web = Web::start(move |_| with_head(&format!("302 Found\r\nlocation: {location}"), ""));
        let (_desk, tools) = tools(&web);
        let message = tools.denial("http.request", [s(web.url("/"))]).await;
        assert!(message.contains("redirected to "), "{message}");
    }
    assert!(secret.seen().is_empty());
}

#[tokio::test]
async fn a_name_that_resolves_to_a_private_address_is_denied_unless_the_address_is_listed() {
    let web = Web::start(|_| ok("inside"));
    let desk = Desk::furnished();
    let url = format!("http://localhost:{}/", web.port);
    for rules in [&["localhost"][..], &["*"], &["localhost", "127.0.0.1:1"]] {
        let message = desk.tools_for(rules, &[]).denial("http.request", [s(&url)]).await;
        assert!(message.contains("localhost resolves to the private address"), "{message}");
        assert!(message.contains("policy.net"), "{message}");
    }
    assert!(web.seen().is_empty());
    let tools = desk.tools_for(&["localhost", &web.host()], &[]);
    assert_eq!(body(&tools.call("http.request", [s(&url)]).await.unwrap()), b"inside");
}

#[tokio::test]
async fn an_answer_that_never_ends_is_cut_off_at_its_time_and_at_its_size() {
    let web = Web::start(|request| match request.line.split(' ').nth(1).unwrap() {
        "/silent" => Reply::Silence(Vec::new()),
        "/stalled" => Reply::Silence(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec()),
        _ => Reply::Flood,
    });
    let (_desk, tools) = tools(&web);
    for path in ["/silent", "/stalled"] {
        let error = tools.refusal("http.request", [s(web.url(path)), o(json!({ "timeoutMs": 200 }))]).await;
        assert_eq!(error.code.as_deref(), Some("TOOL_TIMEOUT"), "{error}");
        web.client_left();
    }
    let error = tools.refusal("http.request", [s(web.url("/flood"))]).await;
    assert!(error.code.as_deref() == Some("TOO_LARGE") && error.message.contains("50 MiB"), "{error}");
    web.client_left();
}

#[tokio::test]
async fn a_small_answer_that_unpacks_to_a_large_one_is_cut_off() {
    let bomb = gzip(&vec![0; 60 << 20]);
    assert!(bomb.len() < 1 << 20);
    let web = Web::start(move |_| with_head("200 OK\r\ncontent-encoding: gzip", &bomb));
    let (_desk, tools) = tools(&web);
    let error = tools.refusal("http.request", [s(web.url("/"))]).await;
    assert_eq!(error.code.as_deref(), Some("TOO_LARGE"), "{error}");
}

#[tokio::test]
async fn a_cancelled_request_lets_go_of_its_connection() {
    let web = Web::start(|_| Reply::Silence(Vec::new()));
    let (_desk, tools) = tools(&web);
    let cancel = CancellationToken::new();
    let call = tools.toolbox.call(tool_call("http.request", [s(web.url("/"))]), &tools.journal, cancel.clone());
    let stop = async {
        while web.seen().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (answer, ()) = tokio::join!(call, stop);
    assert_eq!(answer.unwrap_err().code.as_deref(), Some("CANCELLED"));
    tokio::task::spawn_blocking(move || web.client_left()).await.unwrap();
}

#[tokio::test]
async fn broken_answers_are_errors_that_say_what_is_wrong() {
    for broken in [
        &b""[..],
        b"\r\n\r\n",
        b"SSH-2.0-server\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 999999 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nnope",
    ] {
        let web = Web::start(move |_| Reply::Bytes(broken.to_vec()));
        let (_desk, tools) = tools(&web);
        let error = tools.refusal("http.request", [s(web.url("/"))]).await;
        assert_eq!(error.code.as_deref(), Some("NETWORK"), "{error} for {}", String::from_utf8_lossy(broken));
    }
    let desk = Desk::furnished();
    // Nobody listens on a port that was just given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let tools = desk.tools_for(&["127.0.0.1"], &[]);
    let error = tools.refusal("http.request", [s(format!("http://127.0.0.1:{port}/"))]).await;
    assert!(error.message.contains("no connection"), "{error}");
}

#[tokio::test]
async fn what_would_name_another_host_or_break_the_head_is_refused() {
    let web = Web::start(|_| ok(""));
    let (_desk, tools) = tools(&web);
    for options in [
        json!({ "headers": { "Host": "169.254.169.254" } }),
        json!({ "headers": { "Transfer-Encoding": "chunked" } }),
        json!({ "headers": { "Content-Length": "0" } }),
        json!({ "headers": { "x": "a\r\nHost: evil" } }),
        json!({ "headers": { "x y": "a" } }),
        json!({ "headers": { "x": 1 } }),
        json!({ "headers": "x: y" }),
        json!({ "method": "CONNECT" }),
        json!({ "method": "GET /other HTTP/1.1\r\n" }),
        json!({ "body": "with GET" }),
        json!({ "timeoutMs": 300_001 }),
        json!({ "redirect": "perhaps" }),
        json!({ "follow": true }),
    ] {
        let error = tools.refusal("http.request", [s(web.url("/")), o(options.clone())]).await;
        assert_eq!(error.code.as_deref(), Some("INVALID_ARGUMENT"), "{error} for {options}");
    }
    assert!(web.seen().is_empty());
}

#[tokio::test]
async fn every_way_around_the_hosts_is_denied_and_names_the_rule() {
    let secret = Web::start(|_| ok("secret"));
    let desk = Desk::furnished();
    let tools = desk.tools_for(&["127.0.0.1:1", "allowed.example", "*.wild.example:443", "*"], &[]);
    let port = secret.port;
    let attempts = [
        format!("http://127.0.0.1:{port}/"),
        format!("http://127.1:{port}/"),
        format!("http://127.0.1:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://0x7f000001:{port}/"),
        format!("http://0x7f.0.0.1:{port}/"),
        format!("http://017700000001:{port}/"),
        format!("http://0177.0.0.1:{port}/"),
        format!("http://127.0.0.1.:{port}/"),
        format!("http://127.0.0.2:{port}/"),
        format!("http://0.0.0.0:{port}/"),
        format!("http://0:{port}/"),
        format!("http://[::1]:{port}/"),
        format!("http://[0:0:0:0:0:0:0:1]:{port}/"),
        format!("http://[::]:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://[::ffff:7f00:1]:{port}/"),
        format!("http://[64:ff9b::7f00:1]:{port}/"),
        format!("http://[2002:7f00:1::]:{port}/"),
        format!("http://１２７.０.０.１:{port}/"),
        format!("http://①②⑦.0.0.1:{port}/"),
        format!("http://127。0。0。1:{port}/"),
        format!("http://localhost:{port}/"),
        format!("http://LOCALHOST:{port}/"),
        format!("http://localhost.:{port}/"),
        format!("http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:{port}/"),
        format!("http://allowed.example@127.0.0.1:{port}/"),
        format!("http://allowed.example:x@localhost:{port}/"),
        format!("http:\\\\127.0.0.1:{port}/"),
        format!("http:127.0.0.1:{port}/"),
        format!("  http://127.0.0.1:{port}/"),
        format!("ht\ntp://127.0.0.1:{port}/"),
        format!("ws://127.0.0.1:{port}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://[fd00:ec2::254]/".to_owned(),
        "http://[fe80::1]/".to_owned(),
        "http://10.0.0.1/".to_owned(),
        "http://172.16.0.1/".to_owned(),
        "http://192.168.1.1/".to_owned(),
        "http://100.100.100.200/".to_owned(),
        "http://255.255.255.255/".to_owned(),
        "file:///etc/passwd".to_owned(),
        "ftp://allowed.example/".to_owned(),
        "data:text/plain,x".to_owned(),
        "blob:http://allowed.example/x".to_owned(),
        "javascript:1".to_owned(),
        "unix:/var/run/docker.sock".to_owned(),
        "gopher://allowed.example/".to_owned(),
    ];
    assert!(attempts.len() >= 48);
    for attempt in &attempts {
        let message = tools.denial("http.request", [s(attempt)]).await;
        assert!(message.contains("policy.net") || message.contains("not allowed"), "{message}");
    }
    assert!(secret.seen().is_empty());
    for malformed in
        ["", "127.0.0.1", "//127.0.0.1/", "http://", "http://[::1", "http://a b/", "http://256.1.1.1/", "http://\0/"]
    {
        let error = tools.refusal("http.request", [s(malformed)]).await;
        assert_eq!(error.code.as_deref(), Some("INVALID_ARGUMENT"), "{malformed}: {error}");
    }
}
