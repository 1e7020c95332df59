//! Embeds the scripts of the engine's web extensions, which would otherwise be read from where they were built.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const EXTENSIONS: [&str; 2] = ["deno_web", "deno_webidl"];

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut table = String::from("&[\n");
    for (extension, folder) in EXTENSIONS.iter().zip(folders_of(&EXTENSIONS, &out)?) {
        println!("cargo:rerun-if-changed={}", folder.display());
        for file in fs::read_dir(&folder)? {
            let path = file?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|name| name.ends_with(".js"))
            else {
                continue;
            };
            let copy = out.join(format!("{extension}-{name}"));
            fs::copy(&path, &copy)?;
            writeln!(table, "(\"ext:{extension}/{name}\", include_str!({copy:?})),")?;
        }
    }
    table.push(']');
    fs::write(out.join("sources.rs"), table)?;
    println!("cargo:rerun-if-changed=build.rs");
    Ok(())
}

/// Where cargo keeps the sources of dependencies.
///
/// Asked of a package that has them and no others: of this workspace cargo can only tell once the packages of every platform
/// and of every test are on the machine, and a build alone does not bring those.
fn folders_of(packages: &[&str], out: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let probe = out.join("probe");
    fs::create_dir_all(probe.join("src"))?;
    fs::write(probe.join("src/lib.rs"), "")?;
    let own = fs::read_to_string(here.join("Cargo.toml"))?;
    let mut manifest = String::from("[package]\nname = \"probe\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n");
    for package in packages {
        let line = own.lines().find(|line| line.split(" =").next() == Some(*package));
        writeln!(manifest, "{}", line.ok_or_else(|| format!("Cargo.toml has no {package}"))?)?;
    }
    fs::write(probe.join("Cargo.toml"), manifest)?;
    // The versions are those of the build.
    if let Some(lock) = here.ancestors().map(|folder| folder.join("Cargo.lock")).find(|lock| lock.exists()) {
        fs::copy(lock, probe.join("Cargo.lock"))?;
    }
    let output = Command::new(env::var("CARGO")?)
        .current_dir(&here)
        .args(["metadata", "--format-version", "1", "--offline", "--filter-platform", &env::var("TARGET")?])
        .arg("--manifest-path")
        .arg(probe.join("Cargo.toml"))
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let known = metadata["packages"].as_array().ok_or("cargo names no packages")?;
    let folder_of = |package: &&str| {
        let found = known.iter().find(|found| found["name"] == **package);
        let manifest = found.and_then(|found| found["manifest_path"].as_str());
        let folder = manifest.and_then(|manifest| Path::new(manifest).parent());
        folder.map(Path::to_owned).ok_or_else(|| format!("cargo does not know where {package} is").into())
    };
    packages.iter().map(folder_of).collect()
}
