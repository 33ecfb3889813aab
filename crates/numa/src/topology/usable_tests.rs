//! Cpusets and limits of cgroups, however they are mounted.

use super::*;
use crate::fixture::Fixture;
use crate::topology::tests::{check, ids};

fn read(fixture: &Fixture) -> Topology {
    let machine = Topology::read(fixture.root()).expect("a machine");
    check(&machine);
    machine
}

/// Two nodes of four cpus with these mounts and cgroups.
fn machine(mounts: &str, cgroup: &str) -> Fixture {
    let fixture = Fixture::machine(&[0, 1], 4);
    fixture.write("proc/mounts", mounts);
    fixture.write("proc/self/cgroup", cgroup);
    fixture
}

#[test]
fn version_2_takes_the_nearest_cpuset_and_the_tightest_limit() {
    let fixture = machine("none /cg/uni\\040fied cgroup2 rw 0 0\n", "0::/job/step/task\n");
    fixture.write("cg/uni fied/job/cpuset.cpus.effective", "1-5\n");
    fixture.write("cg/uni fied/job/step/cpuset.cpus.effective", "\n");
    fixture.write("cg/uni fied/job/cpuset.mems.effective", "1\n");
    fixture.write("cg/uni fied/cpuset.cpus.effective", "0\n");
    fixture.write("cg/uni fied/job/step/task/memory.max", "max\n");
    fixture.write("cg/uni fied/job/step/memory.max", "5000000\n");
    fixture.write("cg/uni fied/job/memory.max", "4000000\n");
    let read = read(&fixture);
    assert_eq!(ids(read.usable_cpus()), [1, 2, 3, 4, 5]);
    assert_eq!(read.usable_memory_nodes(), [NodeId(1)]);
    assert_eq!((read.memory_limit_bytes(), read.memory_bytes()), (Some(4_000_000), 4_000_000));
    assert_eq!(read.online_cpus().len(), 8);
    assert!(read.warnings()[0].starts_with("cpus 1-3 may be used, but not the memory"), "{:?}", read.warnings());
    assert!(read.warnings()[1].contains("memory limit is 3.8 MiB"), "{:?}", read.warnings());
    assert_eq!((read.warnings().len(), read.default_memory_bytes()), (2, 3_200_000));
}

#[test]
fn the_tightest_quota_bounds_the_threads() {
    let fixture = machine("none /cg cgroup2 rw 0 0\n", "0::/job/task\n");
    fixture.write("cg/job/task/cpu.max", "max 100000\n");
    assert_eq!((read(&fixture).cpu_quota(), read(&fixture).default_threads()), (None, 8));
    fixture.write("cg/job/task/cpu.max", "400000 100000\n");
    fixture.write("cg/job/cpu.max", "125000 50000\n");
    let machine_ = read(&fixture);
    assert_eq!(machine_.cpu_quota(), Some(CpuQuota { quota_us: 125_000, period_us: 50_000 }));
    assert_eq!(machine_.default_threads(), 3);
    assert!(machine_.warnings()[0].contains("the time of 2.5 of 8 cpus"), "{:?}", machine_.warnings());
    // A quota of more than the cpus is no bound.
    fixture.write("cg/job/cpu.max", "2000000 100000\n");
    fixture.write("cg/job/task/cpu.max", "900000 100000\n");
    assert_eq!((read(&fixture).default_threads(), read(&fixture).warnings().len()), (8, 0));
    for nonsense in ["", "5", "-1 100000", "0 100000", "100000 0", "x y", "99999999999999999999 1"] {
        fixture.write("cg/job/cpu.max", nonsense);
        fixture.write("cg/job/task/cpu.max", nonsense);
        assert_eq!(read(&fixture).cpu_quota(), None, "{nonsense:?}");
    }
    // Version 1, where the controller shares its mount with another.
    let fixture = machine("cgroup /cpu cgroup rw,cpu,cpuacct 0 0\n", "2:cpu,cpuacct:/box\n");
    fixture.write("cpu/box/cpu.cfs_quota_us", "-1\n");
    fixture.write("cpu/box/cpu.cfs_period_us", "100000\n");
    assert_eq!(read(&fixture).cpu_quota(), None);
    fixture.write("cpu/box/cpu.cfs_quota_us", "50000\n");
    assert_eq!(read(&fixture).default_threads(), 1);
}

#[test]
fn version_1_is_found_by_controller_and_prefix() {
    let fixture = machine(
        "cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0\ncgroup /m cgroup rw,memory 0 0\n",
        "4:memory:/box\n3:cpuset:/box\n1:name=systemd:/\n0::/\n",
    );
    fixture.write("sys/fs/cgroup/cpuset/box/cpuset.cpus", "4-7\n");
    fixture.write("sys/fs/cgroup/cpuset/box/cpuset.mems", "0-1\n");
    fixture.write("m/box/memory.limit_in_bytes", "9223372036854771712\n");
    fixture.write("m/memory.limit_in_bytes", "1073741824\n");
    let machine_ = read(&fixture);
    assert_eq!(ids(machine_.usable_cpus()), [4, 5, 6, 7]);
    assert_eq!(machine_.memory_limit_bytes(), Some(1 << 30));
    // The older file system and option, whose files have no prefix.
    for mounts in ["none /dev/cpuset cpuset rw 0 0\n", "none /dev/cpuset cgroup rw,cpuset,noprefix 0 0\n"] {
        let fixture = machine(mounts, "");
        fixture.remove("proc/self/cgroup");
        fixture.write("proc/self/cpuset", "/set\n");
        fixture.write("dev/cpuset/set/cpus", "2-3\n");
        fixture.write("dev/cpuset/set/mems", "0\n");
        let machine = read(&fixture);
        assert_eq!((ids(machine.usable_cpus()), machine.usable_memory_nodes()), (vec![2, 3], &[NodeId(0)][..]));
    }
}

#[test]
fn containers_see_a_part_of_the_hierarchy() {
    // The container's own cgroup is mounted at the usual place, under the path it has outside.
    let fixture = machine("", "3:cpuset:/docker/abc\n");
    fixture.write(
        "proc/self/mountinfo",
        "40 30 0:33 /docker/abc /sys/fs/cgroup/cpuset ro,nosuid master:15 - cgroup cgroup rw,cpuset\n\
         41 30 0:34 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
    );
    fixture.write("sys/fs/cgroup/cpuset/cpuset.cpus", "6\n");
    assert_eq!(ids(read(&fixture).usable_cpus()), [6]);
    // The same without mountinfo: what is not there is looked for further up.
    fixture.remove("proc/self/mountinfo");
    fixture.write("proc/mounts", "cgroup /sys/fs/cgroup/cpuset cgroup ro,cpuset 0 0\n");
    assert_eq!(ids(read(&fixture).usable_cpus()), [6]);
    // Paths outside of the container's namespace do not lead out of the mount.
    fixture.write("proc/self/cgroup", "3:cpuset:/../../../other\n");
    assert_eq!(ids(read(&fixture).usable_cpus()), [6]);
}

#[test]
fn the_recorded_process_may_be_pinned() {
    let fixture = Fixture::machine(&[0, 1], 4);
    fixture
        .write("proc/self/status", "Name:\tx\nCpus_allowed:\tf0\nCpus_allowed_list:\t4-6\nMems_allowed_list:\t0-1\n");
    assert_eq!(ids(read(&fixture).usable_cpus()), [4, 5, 6]);
    fixture.write("proc/self/status", "Cpus_allowed:\t00000000,00000003\nMems_allowed:\t00000002\n");
    let machine = read(&fixture);
    assert_eq!((ids(machine.usable_cpus()), machine.usable_memory_nodes()), (vec![0, 1], &[NodeId(1)][..]));
    assert_eq!(machine.memory_bytes(), 8 << 30);
}

#[test]
fn an_allowance_of_nothing_is_not_believed() {
    let fixture = machine("none /cg cgroup2 rw 0 0\n", "0::/\n");
    fixture.write("proc/self/status", "Cpus_allowed_list:\t90-99\nMems_allowed_list:\t9\n");
    fixture.write("cg/cpuset.cpus.effective", "77\n");
    fixture.write("cg/cpuset.mems.effective", "7\n");
    let machine = read(&fixture);
    assert_eq!((machine.usable_cpus().len(), machine.usable_memory_nodes().len()), (8, 2));
    assert_eq!(machine.warnings().len(), 4, "{:?}", machine.warnings());
}
