//! A server on the loopback interface that answers as it is told, down to the packets.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// The answer to one request. When the answers run out, the last one repeats.
#[derive(Clone)]
pub struct Reply {
    pub head: String,
    pub body: Body,
}

#[derive(Clone)]
pub enum Body {
    /// Each piece is flushed on its own. The connection is closed behind the last one.
    Pieces(Vec<Vec<u8>>),
    /// The same, but the client was promised more.
    CutOff(Vec<Vec<u8>>),
    /// Then nothing more is said until the client closes the connection.
    Silence(Vec<Vec<u8>>),
}

impl Reply {
    pub fn stream(body: Body) -> Self {
        Self { head: "200 OK\r\ncontent-type: text/event-stream".to_owned(), body }
    }

    /// Server-sent events, each flushed on its own.
    pub fn events<S: AsRef<str>>(events: impl IntoIterator<Item = S>) -> Self {
        Self::stream(Body::Pieces(bytes(events)))
    }

    pub fn status(head: &str, body: &str) -> Self {
        Self { head: head.to_owned(), body: Body::Pieces(bytes([body])) }
    }
}

pub fn bytes<S: AsRef<str>>(pieces: impl IntoIterator<Item = S>) -> Vec<Vec<u8>> {
    pieces.into_iter().map(|piece| piece.as_ref().as_bytes().to_vec()).collect()
}

/// A request as it was received.
#[derive(Clone, Debug)]
pub struct Request {
    pub head: String,
    pub body: Value,
}

pub struct Server {
    pub base_url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    closed: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies: Vec<Reply> = replies.into_iter().collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (closed, closed_by_client) = watch::channel(0);
        let seen = requests.clone();
        let task = tokio::spawn(async move {
            loop {
                let Ok((connection, _)) = listener.accept().await else { return };
                let (replies, seen, closed) = (replies.clone(), seen.clone(), closed.clone());
                tokio::spawn(async move { serve(connection, &replies, &seen, &closed).await });
            }
        });
        Self { base_url, requests, closed: closed_by_client, task }
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Settles when the client has closed a connection that was silent.
    pub async fn closed_by_client(&mut self) {
        self.closed.wait_for(|closed| *closed > 0).await.unwrap();
    }
}

async fn serve(
    mut connection: TcpStream,
    replies: &[Reply],
    seen: &Mutex<Vec<Request>>,
    closed: &watch::Sender<usize>,
) -> Option<()> {
    connection.set_nodelay(true).ok()?;
    let request = read_request(&mut connection).await?;
    let Reply { head, body } = {
        let mut seen = seen.lock().unwrap();
        seen.push(request);
        replies.get(seen.len() - 1).or(replies.last())?.clone()
    };
    let (Body::Pieces(pieces) | Body::CutOff(pieces) | Body::Silence(pieces)) = &body;
    let length = pieces.iter().map(Vec::len).sum::<usize>() + usize::from(!matches!(body, Body::Pieces(_)));
    let head = format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    connection.write_all(head.as_bytes()).await.ok()?;
    for piece in pieces {
        connection.write_all(piece).await.ok()?;
        connection.flush().await.ok()?;
        // Lets the client read this piece by itself; nothing depends on it.
        tokio::task::yield_now().await;
    }
    if matches!(body, Body::Silence(_)) {
        let mut byte = [0];
        while connection.read(&mut byte).await.is_ok_and(|read| read > 0) {}
        closed.send_modify(|closed| *closed += 1);
    }
    Some(())
}

async fn read_request(connection: &mut TcpStream) -> Option<Request> {
    let mut received = Vec::new();
    let head_end = loop {
        if let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if connection.read_buf(&mut received).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(received[..head_end].to_vec()).ok()?.to_lowercase();
    let length = head.split("content-length: ").nth(1)?.split("\r\n").next()?.parse::<usize>().ok()?;
    while received.len() < head_end + length {
        if connection.read_buf(&mut received).await.ok()? == 0 {
            return None;
        }
    }
    Some(Request { head, body: serde_json::from_slice(&received[head_end..]).ok()? })
}
