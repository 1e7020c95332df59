use std::process::ExitCode;

fn main() -> ExitCode {
    axon::init();
    axon::cli::main()
}
