//! Policy: what the user allowed.
