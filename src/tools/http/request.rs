//! `http.request`: one exchange, its redirects followed by hand.

use std::{error::Error, time::Duration};

use axon_capsule::{BoxFuture, Datum};
use http::{HeaderMap, Method, StatusCode, header};
use reqwest::{Response, Url};

use super::{
    client::{self, pinned},
    headers,
};
use crate::{
    policy::Denied,
    tools::{
        args::{Args, Options, quote, wrong},
        fault::{Failure, FaultKind},
        limits::{MAX_REDIRECTS, MAX_RESPONSE_BYTES, MAX_TOOL_TIME},
        table::Caller,
    },
};

const OPTIONS: &[&str] = &["method", "headers", "body", "redirect", "timeoutMs"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Redirects {
    Follow,
    Manual,
    Error,
}

struct Exchange {
    url: Url,
    method: Method,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
    redirects: Redirects,
}

pub(super) fn request(caller: Caller, args: Args) -> BoxFuture<'static, Result<Datum, Failure>> {
    Box::pin(async move {
        let (exchange, time) = read(args, caller.time)?;
        match tokio::time::timeout(time, exchange.run(&caller)).await {
            Ok(answer) => answer,
            Err(_) => {
                let detail = format!("no whole answer within {} ms; timeoutMs gives it longer", time.as_millis());
                Err(FaultKind::TimedOut.because(detail).into())
            }
        }
    })
}

fn read(mut args: Args, default_time: Duration) -> Result<(Exchange, Duration), Failure> {
    let text = args.string(0, "url")?;
    let url =
        Url::parse(&text).map_err(|error| wrong(format!("{} is not an absolute URL: {error}", quote(&text, 80))))?;
    let mut options = args.options(1, OPTIONS)?;
    let method = method(options.string("method")?)?;
    let headers = headers::read(options.take("headers"))?;
    let body = body(&mut options)?;
    if body.is_some() && matches!(method, Method::GET | Method::HEAD) {
        return Err(wrong(format!("a {method} request has no body; set method, for example \"POST\"")));
    }
    let redirects = options.word(
        "redirect",
        &[("follow", Redirects::Follow), ("manual", Redirects::Manual), ("error", Redirects::Error)],
    )?;
    let time = time(&mut options, default_time)?;
    Ok((Exchange { url, method, headers, body, redirects }, time))
}

fn method(name: Option<String>) -> Result<Method, Failure> {
    let Some(name) = name else { return Ok(Method::GET) };
    let upper = name.to_ascii_uppercase();
    match Method::from_bytes(upper.as_bytes()) {
        Ok(Method::CONNECT | Method::TRACE) | Err(_) => {
            Err(wrong(format!("{} is not a method that can be sent", quote(&name, 20))))
        }
        Ok(method) => Ok(method),
    }
}

fn body(options: &mut Options) -> Result<Option<Vec<u8>>, Failure> {
    match options.take("body") {
        Datum::Undefined | Datum::Null => Ok(None),
        value => Args::new(vec![value], 1)?.content(0, "body").map(Some),
    }
}

/// `timeoutMs` of a call that keeps its own time.
pub(in crate::tools) fn time(options: &mut Options, default: Duration) -> Result<Duration, Failure> {
    match options.whole("timeoutMs", 1)?.map(Duration::from_millis) {
        None => Ok(default),
        Some(time) if time <= MAX_TOOL_TIME => Ok(time),
        Some(_) => Err(wrong(format!("timeoutMs can be at most {}", MAX_TOOL_TIME.as_millis()))),
    }
}

impl Exchange {
    async fn run(mut self, caller: &Caller) -> Result<Datum, Failure> {
        let client = caller.http.get()?;
        for hop in 0..=MAX_REDIRECTS {
            let response = self.send(client, caller, hop).await?;
            let Some(target) = self.redirection(&response)? else {
                return self.answer(response, hop > 0).await;
            };
            self.follow(response.status(), target);
        }
        Err(FaultKind::Network.because(format!("more than {MAX_REDIRECTS} redirects, the last to {}", self.url)).into())
    }

    /// Checks where the request goes, and sends it there and nowhere else.
    async fn send(&self, client: &reqwest::Client, caller: &Caller, hop: usize) -> Result<Response, Failure> {
        let hosts = caller.policy.hosts();
        let redirected = |denied: Denied| match hop {
            0 => denied,
            _ => Denied { detail: format!("redirected to {}: {}", self.url, denied.detail), ..denied },
        };
        let destination = hosts.admit(&self.url).map_err(redirected)?;
        let addresses = match client::resolve(hosts, &destination).await {
            Err(Failure::Denied(denied)) => return Err(redirected(denied).into()),
            resolved => resolved?,
        };
        let mut request = reqwest::Request::new(self.method.clone(), self.url.clone());
        *request.headers_mut() = self.headers.clone();
        *request.body_mut() = self.body.clone().map(Into::into);
        pinned(client, request, addresses).await.map_err(|error| broken(&error))
    }

    /// Where a response leads, if it is to be followed.
    fn redirection(&self, response: &Response) -> Result<Option<Url>, Failure> {
        let followed = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
        let location = response.headers().get(header::LOCATION).filter(|_| followed);
        let Some(location) = location.filter(|_| self.redirects != Redirects::Manual) else { return Ok(None) };
        let shown = String::from_utf8_lossy(location.as_bytes());
        if self.redirects == Redirects::Error {
            return Err(FaultKind::Network.because(format!("redirected to {shown}, and redirect is \"error\"")).into());
        }
        match self.url.join(&shown) {
            Ok(target) => Ok(Some(target)),
            Err(error) => {
                Err(FaultKind::Network.because(format!("redirected to {shown}, which is no URL: {error}")).into())
            }
        }
    }

    fn follow(&mut self, status: StatusCode, target: Url) {
        let becomes_get = match status.as_u16() {
            303 => self.method != Method::HEAD,
            301 | 302 => self.method == Method::POST,
            _ => false,
        };
        if becomes_get {
            self.method = Method::GET;
            self.body = None;
            headers::forget_body(&mut self.headers);
        }
        if target.origin() != self.url.origin() {
            headers::forget_credentials(&mut self.headers);
        }
        self.url = target;
    }

    async fn answer(self, mut response: Response, redirected: bool) -> Result<Datum, Failure> {
        let status = response.status();
        let headers = headers::write(response.headers());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| broken(&error))? {
            if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
                let detail =
                    format!("the answer is larger than {} MiB; ask for a part of it", MAX_RESPONSE_BYTES >> 20);
                return Err(FaultKind::TooLarge.because(detail).into());
            }
            body.extend_from_slice(&chunk);
        }
        let field = |name: &str, value| (name.to_owned(), value);
        Ok(Datum::Object(vec![
            field("url", Datum::String(self.url.into())),
            field("status", Datum::Number(status.as_u16().into())),
            field("statusText", Datum::String(status.canonical_reason().unwrap_or_default().into())),
            field("ok", Datum::Bool(status.is_success())),
            field("redirected", Datum::Bool(redirected)),
            field("headers", headers),
            field("body", Datum::Bytes(body)),
        ]))
    }
}

/// What went wrong on the way, from the whole chain of causes, each said once.
fn broken(error: &reqwest::Error) -> Failure {
    let mut causes: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !causes.iter().any(|said| said.contains(&text)) {
            causes.push(text);
        }
        next = cause.source();
    }
    let what = match error {
        _ if error.is_connect() => "no connection",
        _ if error.is_timeout() => "no connection in time",
        _ if error.is_decode() => "the answer's body is broken",
        _ if error.is_body() => "the body broke off",
        _ => "no valid answer",
    };
    let causes = causes.join(": ");
    let detail = if causes.is_empty() { what.to_owned() } else { format!("{what}: {causes}") };
    FaultKind::Network.because(detail).into()
}
