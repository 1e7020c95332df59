//! Private key-value state of cognets.
