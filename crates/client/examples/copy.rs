//! Copies a file into a file system, lists the directory, and reads the file back: with the blocking
//! interface, and the last part with the async one.
//!
//! ```text
//! copy MGS:/NAME LOCAL NAME      copy 10.0.0.1@tcp:/lustre /etc/services services
//! ```
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::error::Error;
use std::time::Duration;

use fulmar_client::{Address, Caller, FileSystem, OpenOptions, SessionOptions, blocking};

/// How much is written at once.
const PART: usize = 4 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, local, name] = arguments.as_slice() else {
        return Err("usage: copy MGS:/NAME LOCAL NAME".into());
    };
    let address: Address = address.parse()?;
    let options = SessionOptions { interface: None, port: 988, timeout: Duration::from_secs(60) };
    let lv = blocking::FileSystem::mount(&address, options)?;
    let data = std::fs::read(local)?;
    let file = lv.open(name, OpenOptions { truncate: true, ..OpenOptions::create(0o644) })?;
    for (number, part) in data.chunks(PART).enumerate() {
        file.write((number * PART) as u64, part)?;
    }
    file.sync()?;
    file.close()?;
    for item in lv.list("/")? {
        println!("{} {}", item.fid, String::from_utf8_lossy(&item.name));
    }
    let found = lv.attributes(name)?;
    println!("{name}: {} bytes in {} blocks, mode {:o}", found.size, found.blocks, found.mode);
    let back = blocking::wait(read(lv.inner(), name))?;
    println!("{}", if back == data { "it was read back" } else { "IT IS DIFFERENT" });
    let usage = lv.statfs()?;
    println!("{} of {} MiB are available", usage.available >> 20, usage.bytes >> 20);
    lv.unmount();
    Ok(())
}

/// Reads a whole file.
async fn read(lv: &FileSystem, path: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let caller = Caller::of_process();
    let fid = lv.resolve(&caller, path.as_bytes(), true).await?;
    let file = lv.open_file(&caller, fid, OpenOptions::read()).await?;
    let size = file.attributes().await?.size;
    let bytes = file.read(0, size).await?;
    file.close().await?;
    Ok(bytes)
}
