//! The HTTP client: it connects to nothing but the addresses that were admitted for the request at hand.

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::{
    policy::{Destination, Host, Hosts},
    tools::{
        fault::{Failure, FaultKind},
        limits::CONNECT_TIME,
    },
};

tokio::task_local! {
    /// What the request's host may resolve to.
    static ADMITTED: Vec<SocketAddr>;
}

/// Made when it is first used: reading the system's certificates takes a while.
#[derive(Default)]
pub(in crate::tools) struct Client(OnceLock<Result<reqwest::Client, String>>);

impl Client {
    /// The client itself. Its requests fail unless they are sent [`pinned`].
    pub(super) fn get(&self) -> Result<&reqwest::Client, Failure> {
        let client = self.0.get_or_init(|| {
            reqwest::Client::builder()
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .referer(false)
                .connect_timeout(CONNECT_TIME)
                .dns_resolver(Arc::new(Pinned))
                // Without a pool a request makes its connection itself, inside its own task, where it is pinned.
                .pool_max_idle_per_host(0)
                .user_agent(concat!("axon/", env!("CARGO_PKG_VERSION")))
                .build()
                .map_err(|error| error.to_string())
        });
        client.as_ref().map_err(|error| FaultKind::Network.because(format!("no HTTP client: {error}")).into())
    }
}

/// Sends a request whose host can resolve to these addresses alone.
pub(super) async fn pinned(
    client: &reqwest::Client,
    request: reqwest::Request,
    addresses: Vec<SocketAddr>,
) -> reqwest::Result<reqwest::Response> {
    ADMITTED.scope(addresses, client.execute(request)).await
}

/// Asks DNS, once for a request, and keeps the addresses that policy admits.
pub(super) async fn resolve(hosts: &Hosts, destination: &Destination) -> Result<Vec<SocketAddr>, Failure> {
    let name = match &destination.host {
        Host::Address(address) => return Ok(vec![SocketAddr::new(*address, destination.port)]),
        Host::Name(name) => name,
    };
    let answers = tokio::net::lookup_host((name.as_str(), destination.port)).await.map_err(|error| {
        FaultKind::Network.because(format!("{name} cannot be resolved: {error}; check the host's name"))
    })?;
    Ok(hosts.admit_addresses(destination, answers.map(|answer| answer.ip()))?)
}

struct Pinned;

impl Resolve for Pinned {
    fn resolve(&self, _name: Name) -> Resolving {
        let admitted = ADMITTED.try_with(Clone::clone);
        Box::pin(async move {
            let addresses: Addrs = Box::new(admitted?.into_iter());
            Ok(addresses)
        })
    }
}
