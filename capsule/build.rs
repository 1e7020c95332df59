//! Embeds the scripts of the engine's web extensions, which would otherwise be read from where they were built.

use std::{env, error::Error, fmt::Write as _, fs, path::Path, process::Command};

const EXTENSIONS: [&str; 2] = ["deno_web", "deno_webidl"];

fn main() -> Result<(), Box<dyn Error>> {
    let out = env::var("OUT_DIR")?;
    let mut table = String::from("&[\n");
    for extension in EXTENSIONS {
        let folder = folder_of(extension)?;
        println!("cargo:rerun-if-changed={}", folder.display());
        for file in fs::read_dir(&folder)? {
            let path = file?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|name| name.ends_with(".js"))
            else {
                continue;
            };
            let copy = Path::new(&out).join(format!("{extension}-{name}"));
            fs::copy(&path, &copy)?;
            writeln!(table, "(\"ext:{extension}/{name}\", include_str!({copy:?})),")?;
        }
    }
    table.push(']');
    fs::write(Path::new(&out).join("sources.rs"), table)?;
    println!("cargo:rerun-if-changed=build.rs");
    Ok(())
}

/// Where cargo keeps the source of a dependency.
fn folder_of(package: &str) -> Result<std::path::PathBuf, Box<dyn Error>> {
    let output = Command::new(env::var("CARGO")?).args(["metadata", "--format-version", "1", "--offline"]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("cargo names no packages")?;
    let found = packages.iter().find(|found| found["name"] == package);
    let manifest = found.and_then(|found| found["manifest_path"].as_str()).ok_or("cargo does not know the package")?;
    Ok(Path::new(manifest).parent().ok_or("a manifest has a folder")?.to_owned())
}
