//! A server on the loopback interface that answers as it is told.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, mpsc},
    thread,
};

/// A request as it was received.
#[derive(Clone, Debug)]
pub struct Request {
    pub line: String,
    /// In lower case.
    pub head: String,
    pub body: Vec<u8>,
}

/// What happens to a connection after its request was read.
pub enum Reply {
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// These bytes, then nothing until the client goes.
    Silence(Vec<u8>),
    /// A head, then megabytes until the client goes.
    Flood,
}

pub fn ok(body: impl AsRef<[u8]>) -> Reply {
    with_head("200 OK", body)
}

pub fn with_head(head: &str, body: impl AsRef<[u8]>) -> Reply {
    let body = body.as_ref();
    let mut bytes =
        format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    Reply::Bytes(bytes)
}

pub struct Web {
    pub port: u16,
    seen: Arc<Mutex<Vec<Request>>>,
    gone: Mutex<mpsc::Receiver<()>>,
}

impl Web {
    pub fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (leaving, gone) = mpsc::channel();
        let (requests, answer) = (seen.clone(), Arc::new(answer));
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (requests, answer, leaving) = (requests.clone(), answer.clone(), leaving.clone());
                thread::spawn(move || {
                    if serve(connection, &requests, &*answer).is_some() {
                        let _ = leaving.send(());
                    }
                });
            }
        });
        Self { port, seen, gone: Mutex::new(gone) }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns when a client has left a reply that has no end.
    pub fn client_left(&self) {
        self.gone.lock().unwrap().recv().unwrap();
    }
}

/// `Some` when the client left before the reply was over.
fn serve(mut connection: TcpStream, seen: &Mutex<Vec<Request>>, answer: &dyn Fn(&Request) -> Reply) -> Option<()> {
    let request = read(&mut connection)?;
    seen.lock().unwrap().push(request.clone());
    match answer(&request) {
        Reply::Bytes(bytes) => connection.write_all(&bytes).ok().and(None),
        Reply::Silence(bytes) => {
            connection.write_all(&bytes).ok()?;
            let _ = connection.read(&mut [0]);
            Some(())
        }
        Reply::Flood => {
            connection.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").ok()?;
            let megabyte = vec![b'x'; 1 << 20];
            while connection.write_all(&megabyte).is_ok() {}
            Some(())
        }
    }
}

fn read(connection: &mut TcpStream) -> Option<Request> {
    let mut received = Vec::new();
    let mut byte = [0];
    while !received.ends_with(b"\r\n\r\n") {
        connection.read_exact(&mut byte).ok()?;
        received.push(byte[0]);
    }
    let text = String::from_utf8(received).ok()?;
    let head = text.to_lowercase();
    let length = head.split("content-length: ").nth(1).map_or("0", |rest| rest.split("\r\n").next().unwrap());
    let mut body = vec![0; length.parse().ok()?];
    connection.read_exact(&mut body).ok()?;
    Some(Request { line: text.lines().next()?.to_owned(), head, body })
}
