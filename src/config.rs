//! `axon.toml`.
