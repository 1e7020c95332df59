//! Headers between a block and the wire.

use axon_capsule::Datum;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::tools::{
    args::{expected, quote, wrong},
    fault::Failure,
};

/// Headers that belong to the connection, or that would name another host than the one that was checked.
const RESERVED: [&str; 11] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "proxy-authorization",
    "proxy-connection",
];

/// The headers of a request, from an object of strings.
pub(super) fn read(value: Datum) -> Result<HeaderMap, Failure> {
    let fields = match value {
        Datum::Undefined => Vec::new(),
        Datum::Object(fields) => fields,
        other => return Err(expected("headers", "an object of strings", &other, "")),
    };
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let Datum::String(value) = value else {
            return Err(expected(&format!("the header {name}"), "a string", &value, ""));
        };
        let parsed = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| wrong(format!("{} is not the name of a header", quote(&name, 40))))?;
        if RESERVED.contains(&parsed.as_str()) {
            return Err(wrong(format!("the header {parsed} is set by Axon; leave it out")));
        }
        let value = HeaderValue::from_str(&value)
            .map_err(|_| wrong(format!("the value of the header {parsed} holds a character that headers cannot")))?;
        headers.append(parsed, value);
    }
    Ok(headers)
}

/// What must not follow a redirect to another host.
pub(super) fn forget_credentials(headers: &mut HeaderMap) {
    for name in [header::AUTHORIZATION, header::COOKIE] {
        headers.remove(name);
    }
}

/// What described a body that is no longer sent.
pub(super) fn forget_body(headers: &mut HeaderMap) {
    for name in [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::CONTENT_LANGUAGE, header::CONTENT_LOCATION] {
        headers.remove(name);
    }
}

/// The headers of a response; several values of one name are joined.
pub(super) fn write(headers: &HeaderMap) -> Datum {
    let joined = |name: &HeaderName| {
        let values: Vec<_> =
            headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        (name.as_str().to_owned(), Datum::String(values.join(", ")))
    };
    Datum::Object(headers.keys().map(joined).collect())
}
