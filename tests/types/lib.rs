//! Holds every cognet of this repository to the declarations that authors get, with Luau's own type checker.

#[cfg(all(test, any(target_os = "linux", target_os = "macos")))]
mod strict;
