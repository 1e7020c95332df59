//! Hosts: what `[policy] net` names, and which addresses may be reached.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use reqwest::Url;

use super::{Denied, Owner, PolicyError};

/// The key that errors of the rules name.
const NET_KEY: &str = "policy.net";

/// The hosts that the user listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    owner: Owner,
    rules: Vec<HostRule>,
}

#[derive(Clone, Debug)]
struct HostRule {
    written: String,
    host: HostPattern,
    /// Any port without one.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    /// `*`: every name, and every public address.
    Any,
    Name(String),
    /// `*.example.com`: what lies below a name, at any depth.
    Below(String),
    Address(IpAddr),
}

/// A host as a URL names it, normalised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Name(String),
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// Where a URL leads that policy has admitted by its text.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub host: Host,
    pub port: u16,
    /// The rule that admits it, as the log names it.
    pub rule: String,
}

impl Hosts {
    /// # Errors
    /// Names the entry that can be no host, so that a slip of the pen does not become a rule that never matches.
    pub fn new(owner: &Owner, rules: &[String]) -> Result<Self, PolicyError> {
        let parse = |written: &String| {
            HostRule::parse(written).ok_or_else(|| {
                PolicyError::new(
                    NET_KEY,
                    written,
                    "is not a host",
                    "write a host without scheme or path: \"api.github.com\", \"*.example.com:8443\", \
                     \"127.0.0.1:11434\"",
                )
            })
        };
        Ok(Self { owner: owner.clone(), rules: rules.iter().map(parse).collect::<Result<_, _>>()? })
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The ports that are listed; `None` when a rule leaves them open.
    pub fn ports(&self) -> Option<Vec<u16>> {
        self.rules.iter().map(|rule| rule.port).collect()
    }

    /// Judges a URL by its text: scheme, credentials, host and port. A name's addresses are judged when they are known.
    pub fn admit(&self, url: &Url) -> Result<Destination, Denied> {
        let key = self.owner.key("net");
        let denied = |detail: String| Denied { rule: key.clone(), detail };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(denied(format!("the scheme {}: is not allowed; use http: or https:", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(denied(
                "credentials in a URL are not allowed; send them in the header authorization".to_owned(),
            ));
        }
        let (Some(host), Some(port)) = (url.host_str().and_then(Host::parse), url.port_or_known_default()) else {
            return Err(denied("the URL names no host".to_owned()));
        };
        if self.is_empty() {
            return Err(denied(format!("no host is reachable: {key} in axon.toml lists none")));
        }
        match self.rules.iter().find(|rule| rule.covers(&host, port)) {
            Some(rule) => Ok(Destination { host, port, rule: format!("{key} = \"{}\"", rule.written) }),
            None => {
                let detail = match &host {
                    Host::Address(address) if !is_public(*address) => format!(
                        "{host}:{port} is a private address, which has to be listed itself in {key} ({})",
                        self.listed()
                    ),
                    _ => format!("{host}:{port} is not among the hosts of {key} ({})", self.listed()),
                };
                Err(denied(detail))
            }
        }
    }

    /// Of a name's addresses those that may be reached: public ones, and those that are listed as addresses.
    pub fn admit_addresses(
        &self,
        destination: &Destination,
        addresses: impl Iterator<Item = IpAddr>,
    ) -> Result<Vec<SocketAddr>, Denied> {
        let Destination { host, port, .. } = destination;
        let (admitted, refused): (Vec<_>, Vec<_>) = addresses.partition(|address| {
            let listed = Host::Address(address.to_canonical());
            is_public(*address) || self.rules.iter().any(|rule| rule.names_address(&listed, *port))
        });
        match (admitted.is_empty(), refused.first()) {
            (true, Some(address)) => Err(Denied {
                rule: self.owner.key("net"),
                detail: format!(
                    "{host} resolves to the private address {address}; if that is meant, list \"{}:{port}\" in {}",
                    Host::Address(*address),
                    self.owner.key("net")
                ),
            }),
            _ => Ok(admitted.into_iter().map(|address| SocketAddr::new(address, *port)).collect()),
        }
    }

    fn listed(&self) -> String {
        let written: Vec<_> = self.rules.iter().map(|rule| rule.written.as_str()).collect();
        written.join(", ")
    }
}

impl HostRule {
    fn parse(written: &str) -> Option<Self> {
        let (host, port) = split_port(written)?;
        let host = match host {
            "*" => HostPattern::Any,
            _ => match host.strip_prefix("*.") {
                Some(rest) => match normalise(rest)? {
                    Host::Name(name) => HostPattern::Below(name),
                    Host::Address(_) => return None,
                },
                None => match normalise(host)? {
                    Host::Name(name) => HostPattern::Name(name),
                    Host::Address(address) => HostPattern::Address(address),
                },
            },
        };
        Some(Self { written: written.into(), host, port })
    }

    fn covers(&self, host: &Host, port: u16) -> bool {
        let named = match (&self.host, host) {
            (HostPattern::Any, Host::Name(_)) => true,
            (HostPattern::Any, Host::Address(address)) => is_public(*address),
            (HostPattern::Name(rule), Host::Name(name)) => rule == name,
            (HostPattern::Below(rule), Host::Name(name)) => {
                name.strip_suffix(rule.as_str()).is_some_and(|above| above.len() > 1 && above.ends_with('.'))
            }
            (HostPattern::Address(rule), Host::Address(address)) => rule == address,
            _ => false,
        };
        named && self.port.is_none_or(|rule| rule == port)
    }

    fn names_address(&self, address: &Host, port: u16) -> bool {
        matches!(self.host, HostPattern::Address(_)) && self.covers(address, port)
    }
}

impl Host {
    /// From the host of a parsed URL.
    fn parse(host: &str) -> Option<Self> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Some(Self::Address(address.to_canonical()));
        }
        let name = host.strip_suffix('.').unwrap_or(host);
        (!name.is_empty()).then(|| Self::Name(name.to_owned()))
    }
}

/// `host`, `host:port`, `[v6]:port`, or a bare IPv6 address.
fn split_port(written: &str) -> Option<(&str, Option<u16>)> {
    if written.parse::<Ipv6Addr>().is_ok() {
        return Some((written, None));
    }
    match written.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => match port.parse() {
            Ok(0) | Err(_) => None,
            Ok(port) => Some((host, Some(port))),
        },
        _ => Some((written, None)),
    }
}

/// A host as URLs spell it: lower case, punycode, plain addresses.
fn normalise(host: &str) -> Option<Host> {
    if host.is_empty() || host.contains(['/', ' ', '@', '?', '#', '\\', '\0', '\t', '\n', '\r', '*', '%']) {
        return None;
    }
    let spelled =
        if host.parse::<Ipv6Addr>().is_ok() { format!("http://[{host}]/") } else { format!("http://{host}/") };
    let url = Url::parse(&spelled).ok()?;
    (url.port().is_none()).then(|| url.host_str().and_then(Host::parse)).flatten()
}

/// Whether an address belongs to the public internet.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        // This network, multicast, reserved, broadcast.
        || a == 0
        || a >= 224
        // Shared by carriers; the metadata service of some clouds lies here.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        // Benchmarks.
        || (a == 198 && (b == 18 || b == 19));
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    match segments {
        // NAT64: the address of the other side is in the last four bytes.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        // Teredo, benchmarks, ORCHID; documentation; 6to4, which may lead to any IPv4 address.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => false,
        [0x2002 | 0x3fff, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(rules: &[&str]) -> Hosts {
        Hosts::new(&Owner::Agent, &rules.iter().map(|rule| rule.to_string()).collect::<Vec<_>>()).unwrap()
    }

    fn admits(rules: &[&str], url: &str) -> bool {
        hosts(rules).admit(&Url::parse(url).unwrap()).is_ok()
    }

    #[test]
    fn a_host_is_admitted_by_its_name_its_port_and_its_wildcard() {
        assert!(admits(&["api.github.com"], "https://api.github.com/x"));
        assert!(admits(&["api.github.com"], "http://API.GitHub.com.:8080/"));
        assert!(!admits(&["api.github.com:443"], "http://api.github.com/"));
        assert!(admits(&["api.github.com:443"], "https://api.github.com/"));
        assert!(admits(&["*.example.com:8443"], "https://a.b.example.com:8443/"));
        assert!(!admits(&["*.example.com"], "https://example.com/"));
        assert!(!admits(&["*.example.com"], "https://badexample.com/"));
        assert!(!admits(&["example.com"], "https://a.example.com/"));
        assert!(admits(&["bücher.example"], "https://xn--bcher-kva.example/"));
        assert!(admits(&["*"], "https://anything.example/"));
    }

    #[test]
    fn an_address_is_admitted_as_an_address_alone_in_any_spelling() {
        let spellings = [
            "http://127.0.0.1:80/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://１２７.0.0.1/",
        ];
        for url in spellings {
            assert!(admits(&["127.0.0.1:80"], url), "{url}");
            for rules in [&["*"][..], &["localhost"], &["*.0.0.1x"], &["127.0.0.1:81"]] {
                assert!(!admits(rules, url), "{url} by {rules:?}");
            }
        }
        assert!(admits(&["::1"], "http://[::1]/") && admits(&["[::1]:80"], "http://[0:0::1]/"));
    }

    #[test]
    fn private_answers_are_left_out_unless_listed_by_address() {
        let rules = hosts(&["name.example", "10.0.0.1:80"]);
        let destination = rules.admit(&Url::parse("http://name.example/").unwrap()).unwrap();
        let addresses = |list: &[&str]| list.iter().map(|a| a.parse().unwrap()).collect::<Vec<IpAddr>>();
        let admit = |list: &[&str]| rules.admit_addresses(&destination, addresses(list).into_iter());
        assert_eq!(admit(&["10.0.0.2", "8.8.8.8", "10.0.0.1"]).unwrap().len(), 2);
        for private in [
            "10.0.0.2",
            "127.0.0.1",
            "169.254.169.254",
            "100.100.100.200",
            "192.168.0.1",
            "172.16.0.1",
            "0.0.0.0",
            "::",
            "::1",
            "fe80::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::1",
            "ff02::1",
            "::7f00:1",
        ] {
            let denied = admit(&[private]).unwrap_err();
            assert!(denied.detail.contains("resolves to the private address"), "{denied:?}");
        }
    }

    #[test]
    fn what_is_no_host_is_an_error() {
        for bad in
            ["https://a.example", "", "a b", "user@host", "host:0", "host:port", "*.1.2.3.4", "a.*.b", "h/x", "*."]
        {
            assert!(Hosts::new(&Owner::Agent, &[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}
