//! Engines: inference, wire formats, providers.
