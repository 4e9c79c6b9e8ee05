//! What work costs inside against bare: processor time (user and system, of every process of the command)
//! and wall clock of the same command lines, by turns in one process. Prints a table in Markdown: medians
//! and their ratios, against the bars, and beside them the ratio of the tenth percentiles.
//!
//! `cargo bench --bench inside [-- ROUNDS NAME…]` (all works without names), on a busy machine as root after `chrt -r 1`. Both sides have the
//! same user, environment, directory and pipes, so what differs is the confinement: its start included. A
//! program that is not installed is named, and the exit status is then 1; a missed bar only has its word.
#![allow(clippy::disallowed_methods, reason = "programs are started to be measured")]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a benchmark that cannot run must say why and stop"
)]

#[path = "../common/mod.rs"]
mod common;
mod work;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{PipeReader, pipe, sink};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cofferdam::policy::Target;
use common::{PAUSE, Road, lab, quantile, rounds};
use work::Work;

/// Rounds that are run and not counted.
const WARM_UP: usize = 3;

/// What one run took, and how much it printed.
struct Cost {
    processor: Duration,
    wall: Duration,
    printed: u64,
}

/// Processor time and wall clock of each run.
#[derive(Default)]
struct Times {
    processor: Vec<Duration>,
    wall: Vec<Duration>,
}

fn main() -> ExitCode {
    cofferdam::launch::become_launcher_if_asked();
    let rounds = rounds(40);
    let lab = lab();
    let (works, missing): (Vec<Work>, Vec<Work>) = work::wanted().into_iter().partition(Work::is_there);
    let workspace = work::workspace(lab.path());
    let text = work::policy(lab.path(), &workspace, &works);
    let lines = works.iter().map(Work::argv).collect();
    let bench = Arc::new(Bench { road: Road::of(&text, lines), workspace });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("async runtime");
    let load = load();
    let many = works.len();
    // On a worker, as the server's calls are.
    let measured = async move { tokio::spawn(async move { bench.measured(many, rounds).await }).await };
    let mut measured = runtime.block_on(measured).expect("measurement");
    println!("{rounds} rounds by turns, load average {load} before and {} after.\n", self::load());
    print(&works, &mut measured);
    for work in &missing {
        println!("\n{} is missing: it was not measured", work.name);
    }
    if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").expect("/proc/loadavg");
    text.split(' ').next().expect("load average").to_owned()
}

fn print(works: &[Work], measured: &mut [[Times; 2]]) {
    println!(
        "| work | bare CPU ms | inside CPU ms | CPU ratio | of p10 | bar | | bare wall ms | inside wall ms | wall ratio |"
    );
    println!("|---|---:|---:|---:|---:|---:|---|---:|---:|---:|");
    for (work, [bare, inside]) in works.iter().zip(measured) {
        // Of the runs that others disturbed least.
        let [bare_p10, p10] =
            [&mut bare.processor, &mut inside.processor].map(|times| quantile(times, 10).as_secs_f64());
        let [bare_cpu, cpu, bare_wall, wall] =
            [&mut bare.processor, &mut inside.processor, &mut bare.wall, &mut inside.wall]
                .map(|times| quantile(times, 50).as_secs_f64() * 1e3);
        let ratio = cpu / bare_cpu;
        let met = if ratio <= work.bar { "met" } else { "NOT met" };
        println!(
            "| {} | {bare_cpu:.2} | {cpu:.2} | {ratio:.3} | {:.3} | {} | {met} | {bare_wall:.2} | {wall:.2} | {:.3} |",
            work.shown(),
            p10 / bare_p10,
            work.bar,
            wall / bare_wall
        );
    }
}

struct Bench {
    road: Road,
    workspace: PathBuf,
}

impl Bench {
    /// Bare and inside, of each work.
    async fn measured(&self, works: usize, rounds: usize) -> Vec<[Times; 2]> {
        let mut all: Vec<[Times; 2]> = (0..works).map(|_| Default::default()).collect();
        for round in 0..rounds + WARM_UP {
            for (work, times) in all.iter_mut().enumerate() {
                let mut printed = [0, 0];
                // Each side goes first in every second round.
                for side in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
                    tokio::time::sleep(PAUSE).await;
                    let cost = if side == 0 { self.bare(work) } else { self.inside(work).await };
                    printed[side] = cost.printed;
                    if round >= WARM_UP {
                        times[side].processor.push(cost.processor);
                        times[side].wall.push(cost.wall);
                    }
                }
                assert_eq!(printed[0], printed[1], "work {work} did not do the same bare and inside");
            }
        }
        all
    }

    async fn inside(&self, work: usize) -> Cost {
        let ([stdin, stdout, stderr], drained, said) = ends();
        let (wall, ended) = self.road.confined_end(work, [stdin, stdout, stderr]).await;
        let printed = drained.join().expect("output");
        let said = std::io::read_to_string(said).expect("what it said");
        assert_eq!((ended.code, ended.left), (Some(0), 0), "work {work} inside: {said} {:?}", ended.denied);
        Cost { processor: Duration::from_micros(ended.user_us + ended.system_us), wall, printed }
    }

    #[allow(clippy::zombie_processes, reason = "`wait` reaps it, for its usage")]
    fn bare(&self, work: usize) -> Cost {
        let ([stdin, stdout, stderr], drained, said) = ends();
        let (plan, uid, gid) = self.road.plan(work);
        let Target::Found(program) = plan.target() else { panic!("work {work}: no program") };
        let mut argv = plan.argv().iter().map(|word| OsStr::from_bytes(word.to_bytes()));
        let mut command = Command::new(&program.real);
        command.arg0(argv.next().expect("a name")).args(argv).current_dir(&self.workspace).env_clear();
        for pair in plan.env() {
            let mut halves = pair.to_bytes().splitn(2, |byte| *byte == b'=').map(OsStr::from_bytes);
            command.env(halves.next().expect("a name"), halves.next().expect("a value"));
        }
        if nix::unistd::geteuid().is_root() {
            command.uid(uid).gid(gid);
        }
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        let start = Instant::now();
        let child = command.spawn().expect("bare start");
        let (status, processor) = wait(child.id());
        let wall = start.elapsed();
        // It holds the writing ends.
        drop(command);
        let printed = drained.join().expect("output");
        let said = std::io::read_to_string(said).expect("what it said");
        assert!(status.success(), "work {work} bare: {status}: {said}");
        Cost { processor, wall, printed }
    }
}

/// Standard input, output and error; what counts the output; what reads the errors.
fn ends() -> ([OwnedFd; 3], JoinHandle<u64>, PipeReader) {
    let (mut output, stdout) = pipe().expect("pipe");
    let (said, stderr) = pipe().expect("pipe");
    let drained = std::thread::spawn(move || std::io::copy(&mut output, &mut sink()).expect("output"));
    ([File::open("/dev/null").expect("null").into(), stdout.into(), stderr.into()], drained, said)
}

/// End of a child, with the processor time of it and of the children it waited for.
fn wait(pid: u32) -> (ExitStatus, Duration) {
    let mut status = 0;
    // SAFETY: an all-zero `rusage` is a valid value of that plain-data type.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let pid = i32::try_from(pid).expect("process id");
    // SAFETY: both out-pointers are valid for the call.
    let reaped = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    assert_eq!(reaped, pid, "wait4: {}", std::io::Error::last_os_error());
    let time = |t: libc::timeval| {
        Duration::from_secs(t.tv_sec.unsigned_abs()) + Duration::from_micros(t.tv_usec.unsigned_abs())
    };
    (ExitStatus::from_raw(status), time(usage.ru_utime) + time(usage.ru_stime))
}

/// The first line that a program of the host prints, as a path.
fn told(program: &str, words: &[&str]) -> PathBuf {
    let output = Command::new(program).args(words).output().expect("a program of the host");
    assert!(output.status.success(), "{program} {words:?}: {}", output.status);
    let line = output.stdout.split(|byte| *byte == b'\n').next().expect("a line").to_vec();
    OsString::from_vec(line).into()
}
