//! Small machines as folders of files, for tests.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A machine's files in a folder that goes when this is dropped.
pub(crate) struct Fixture {
    folder: TempDir,
}

impl Fixture {
    /// A folder with nothing in it.
    pub(crate) fn empty() -> Fixture {
        Fixture { folder: folder() }
    }

    /// `nodes` nodes of `cpus` cpus each (ids given), two cpus to a core, one package per node, 8 GiB per node.
    pub(crate) fn machine(nodes: &[u32], cpus: u32) -> Fixture {
        let fixture = Fixture::empty();
        let all: Vec<String> = nodes.iter().map(u32::to_string).collect();
        fixture.node_file("online", &all.join(","));
        fixture.node_file("has_memory", &all.join(","));
        let total = cpus * nodes.len() as u32;
        fixture.cpu_file("online", &format!("0-{}\n", total - 1));
        for (i, &node) in nodes.iter().enumerate() {
            let first = i as u32 * cpus;
            let distances: Vec<&str> = nodes.iter().map(|n| if *n == node { "10" } else { "21" }).collect();
            fixture.node_file(&format!("node{node}/distance"), &format!("{}\n", distances.join(" ")));
            fixture.node_file(&format!("node{node}/cpulist"), &format!("{first}-{}\n", first + cpus - 1));
            fixture.node_memory(node, 8 << 20, 6 << 20);
            for cpu in first..first + cpus {
                let sibling = cpu ^ 1;
                let a = cpu.min(sibling);
                let b = cpu.max(sibling);
                fixture.cpu_file(&format!("cpu{cpu}/topology/core_cpus_list"), &format!("{a}-{b}\n"));
                fixture.cpu_file(&format!("cpu{cpu}/topology/core_id"), &format!("{a}\n"));
                fixture.cpu_file(&format!("cpu{cpu}/topology/physical_package_id"), &format!("{node}\n"));
                fixture.cpu_file(&format!("cpu{cpu}/cache/index0/level"), "2\n");
                fixture.cpu_file(&format!("cpu{cpu}/cache/index0/type"), "Unified\n");
                fixture.cpu_file(&format!("cpu{cpu}/cache/index0/size"), "1024K\n");
                fixture.cpu_file(&format!("cpu{cpu}/cache/index0/shared_cpu_list"), &format!("{a}-{b}\n"));
            }
        }
        let total_kib = (8 << 20) * nodes.len();
        fixture.write("proc/meminfo", &format!("MemTotal: {total_kib} kB\nMemAvailable: {} kB\n", total_kib / 2));
        fixture
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file, with its folders.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("a file under the root")).expect("folders");
        fs::write(path, text).expect("a file");
    }

    pub(crate) fn cpu_file(&self, path: &str, text: &str) {
        self.write(&format!("sys/devices/system/cpu/{path}"), text);
    }

    pub(crate) fn node_file(&self, path: &str, text: &str) {
        self.write(&format!("sys/devices/system/node/{path}"), text);
    }

    /// A node's meminfo, in KiB.
    pub(crate) fn node_memory(&self, node: u32, total_kib: u64, free_kib: u64) {
        let text = format!("Node {node} MemTotal:  {total_kib} kB\nNode {node} MemFree:  {free_kib} kB\n");
        self.node_file(&format!("node{node}/meminfo"), &text);
    }

    /// Removes a file or a folder that is there.
    pub(crate) fn remove(&self, path: &str) {
        let path = self.root().join(path);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("it was there");
    }

    /// Every regular file below the root, sorted.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        files_below(self.root())
    }
}

/// A temporary folder, in memory where there is such a file system: these tests make thousands of files.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder")
}

/// Every regular file below a folder (links are not followed), sorted.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let kind = entry.file_type().expect("a file type");
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}
