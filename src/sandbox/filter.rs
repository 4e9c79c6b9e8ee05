//! From the system-call table to BPF: a balanced tree of comparisons.
//!
//! Why our own code generator: the kernel emulates a filter once for every system-call number when
//! it is installed, so a linear chain (as `seccompiler` emits) costs ten times as much a run as a
//! tree. Pure: no system call here. Parity with a `seccompiler` filter is property-tested below.
//! Called by `sandbox/profile.rs`; installed by `sys::seccomp`.

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET,
    BPF_W, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_USER_NOTIF,
};

use super::syscalls::{Entry, Rule, Test};

/// One BPF instruction, laid out as the kernel's `struct sock_filter`.
pub type Insn = libc::sock_filter;

/// `AUDIT_ARCH_X86_64` (linux/audit.h): the only architecture whose table we have.
const ARCH_X86_64: u32 = 0xC000_003E;
/// Numbers from here on are the x32 ABI, which would bypass a table of 64-bit numbers.
const X32_BIT: u32 = 0x4000_0000;
const ERRNO_EPERM: u32 = libc::EPERM as u32;
const ERRNO_ENOSYS: u32 = libc::ENOSYS as u32;

/// Why a table could not be compiled.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// A jump or the whole program is longer than BPF allows.
    #[error("system-call filter is too long: {0} instructions (at most 4096)")]
    TooLong(usize),
    /// A number that is no system-call number.
    #[error("system-call table: {0} has no valid number")]
    BadNumber(&'static str),
}

const fn insn(code: u32, jt: u8, jf: u8, k: u32) -> Insn {
    Insn { code: code as u16, jt, jf, k }
}

const fn ret(k: u32) -> Insn {
    insn(BPF_RET | BPF_K, 0, 0, k)
}

const fn load(offset: u32) -> Insn {
    insn(BPF_LD | BPF_W | BPF_ABS, 0, 0, offset)
}

const fn errno(code: u32) -> u32 {
    SECCOMP_RET_ERRNO | code
}

/// Offset of the low half of argument `n` in `struct seccomp_data` (little endian).
const fn low(n: u8) -> u32 {
    16 + 8 * n as u32
}

/// A run of numbers with one rule.
struct Range {
    start: u32,
    rule: Rule,
}

/// Who answers a call that is forbidden by name (EPERM).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The filter itself.
    Filter,
    /// The supervisor, by notification, which also hears of each program that is started. The low
    /// half of the fourth argument of execve(2), which the kernel ignores, marks the start that it makes itself
    /// and cannot be told of while it waits in vfork.
    Supervisor(u32),
}

/// Compiles `table` (sorted by number, as [`super::syscalls::table`] gives it).
///
/// # Errors
/// A number that is none, or a program that is too long.
pub fn compile(table: &[Entry], answer: Answer) -> Result<Vec<Insn>, FilterError> {
    let mut ranges = vec![Range { start: 0, rule: Rule::Absent }];
    let mut next = 0;
    for entry in table {
        let nr = u32::try_from(entry.nr).map_err(|_| FilterError::BadNumber(entry.name))?;
        if nr > next {
            push(&mut ranges, next, Rule::Absent);
        }
        push(&mut ranges, nr, entry.rule);
        next = nr + 1;
    }
    push(&mut ranges, next, Rule::Absent);
    finish(&ranges, answer)
}

fn finish(ranges: &[Range], answer: Answer) -> Result<Vec<Insn>, FilterError> {
    let mut program = vec![
        load(4),
        insn(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ARCH_X86_64),
        ret(SECCOMP_RET_KILL_PROCESS),
        load(0),
        insn(BPF_JMP | BPF_JGE | BPF_K, 0, 1, X32_BIT),
        ret(SECCOMP_RET_KILL_PROCESS),
    ];
    program.extend(tree(ranges, answer)?);
    if program.len() > 4096 {
        return Err(FilterError::TooLong(program.len()));
    }
    Ok(program)
}

/// The opposite for a process of our own: these numbers are forbidden, everything else is allowed.
///
/// # Errors
/// A program that is too long.
pub fn compile_denying(denied: &[i64]) -> Result<Vec<Insn>, FilterError> {
    let mut sorted = denied.to_vec();
    sorted.sort_unstable();
    let mut ranges = vec![Range { start: 0, rule: Rule::Allow }];
    for nr in sorted {
        let nr = u32::try_from(nr).map_err(|_| FilterError::BadNumber("a call of the server"))?;
        push(&mut ranges, nr, Rule::Deny);
        ranges.push(Range { start: nr.saturating_add(1), rule: Rule::Allow });
    }
    finish(&ranges, Answer::Filter)
}

/// Adds a range, or nothing when the one before has the same rule.
fn push(ranges: &mut Vec<Range>, start: u32, rule: Rule) {
    match ranges.last_mut() {
        Some(last) if last.rule == rule => {}
        Some(last) if last.start == start => last.rule = rule,
        _ => ranges.push(Range { start, rule }),
    }
}

fn tree(ranges: &[Range], answer: Answer) -> Result<Vec<Insn>, FilterError> {
    let (left, right) = ranges.split_at(ranges.len() / 2);
    let (Some(first), false) = (right.first(), left.is_empty()) else {
        return ranges.first().map_or(Ok(vec![ret(errno(ERRNO_ENOSYS))]), |range| leaf(range.rule, answer));
    };
    let left = tree(left, answer)?;
    let right = tree(right, answer)?;
    let mut out = Vec::with_capacity(left.len() + right.len() + 2);
    // A side that is one answer which the other side gives as well is a jump to it.
    if let Some(at) = shared(&left, &right) {
        out.push(insn(BPF_JMP | BPF_JGE | BPF_K, 0, at, first.start));
        out.extend(right);
        return Ok(out);
    }
    if let Some(at) = shared(&right, &left) {
        out.push(insn(BPF_JMP | BPF_JGE | BPF_K, at, 0, first.start));
        out.extend(left);
        return Ok(out);
    }
    match u8::try_from(left.len()) {
        Ok(far) => out.push(insn(BPF_JMP | BPF_JGE | BPF_K, far, 0, first.start)),
        Err(_) => {
            let far = u32::try_from(left.len()).map_err(|_| FilterError::TooLong(left.len()))?;
            out.push(insn(BPF_JMP | BPF_JGE | BPF_K, 0, 1, first.start));
            out.push(insn(BPF_JMP | BPF_JA, 0, 0, far));
        }
    }
    out.extend(left);
    out.extend(right);
    Ok(out)
}

/// Where in `other` the one answer stands that `side` consists of, near enough for a jump.
fn shared(side: &[Insn], other: &[Insn]) -> Option<u8> {
    let [answer] = side else { return None };
    let same = |step: &Insn| (step.code, step.k) == (answer.code, answer.k);
    // One that is too far away is written again.
    let mut near = (0..=u8::MAX).zip(other);
    let (at, _) = near.find(|(_, step)| same(step)).filter(|_| u32::from(answer.code) == BPF_RET | BPF_K)?;
    Some(at)
}

/// The instructions that decide one rule; the number is no longer needed in the accumulator.
fn leaf(rule: Rule, answer: Answer) -> Result<Vec<Insn>, FilterError> {
    let forbidden = match answer {
        Answer::Filter => errno(ERRNO_EPERM),
        Answer::Supervisor(_) => SECCOMP_RET_USER_NOTIF,
    };
    Ok(match rule {
        Rule::Allow => vec![ret(SECCOMP_RET_ALLOW)],
        Rule::Deny => vec![ret(forbidden)],
        Rule::Absent => vec![ret(errno(ERRNO_ENOSYS))],
        Rule::When(tests, code) => {
            let code = u32::from(code);
            let fail = if code == ERRNO_EPERM { forbidden } else { errno(code) };
            let mut out = conditions(tests, ret(fail))?;
            out.push(ret(SECCOMP_RET_ALLOW));
            out
        }
        Rule::Execute => match answer {
            Answer::Filter => vec![ret(SECCOMP_RET_ALLOW)],
            Answer::Supervisor(mark) => vec![
                load(low(3)),
                insn(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, mark),
                ret(SECCOMP_RET_USER_NOTIF),
                ret(SECCOMP_RET_ALLOW),
            ],
        },
        Rule::ExecuteWhen(tests) => {
            // Not told of: the supervisor would take it for a start.
            let mut out = conditions(tests, ret(errno(ERRNO_EPERM)))?;
            out.push(match answer {
                Answer::Filter => ret(SECCOMP_RET_ALLOW),
                Answer::Supervisor(_) => ret(SECCOMP_RET_USER_NOTIF),
            });
            out
        }
    })
}

/// Falls through when every test holds, returns `fail` otherwise.
fn conditions(tests: &[Test], fail: Insn) -> Result<Vec<Insn>, FilterError> {
    let mut out = Vec::new();
    for test in tests {
        condition(&mut out, *test, fail)?;
    }
    Ok(out)
}

/// Falls through when the test holds, returns `fail` otherwise.
fn condition(out: &mut Vec<Insn>, test: Test, fail: Insn) -> Result<(), FilterError> {
    match test {
        Test::OneOf(arg, values) => {
            out.push(load(low(arg)));
            one_of(out, values, fail)?;
        }
        Test::Masked(arg, mask, values) => {
            out.push(load(low(arg)));
            out.push(insn(BPF_ALU | BPF_AND | BPF_K, 0, 0, mask));
            one_of(out, values, fail)?;
        }
        Test::NoBits(arg, bits) => {
            out.push(load(low(arg)));
            out.push(insn(BPF_JMP | BPF_JSET | BPF_K, 0, 1, bits));
            out.push(fail);
        }
        Test::Null(arg) => {
            out.push(load(low(arg)));
            out.push(insn(BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0));
            out.push(load(low(arg) + 4));
            out.push(insn(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0));
            out.push(fail);
        }
    }
    Ok(())
}

/// Falls through when the accumulator is one of `values`, returns `fail` otherwise. Three or more
/// consecutive values become two comparisons, which keeps the program short.
fn one_of(out: &mut Vec<Insn>, values: &[u32], fail: Insn) -> Result<(), FilterError> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for value in sorted {
        match runs.last_mut() {
            Some((_, hi)) if hi.checked_add(1) == Some(value) => *hi = value,
            _ => runs.push((value, value)),
        }
    }
    let mut body = Vec::new();
    for (lo, hi) in runs {
        if hi - lo >= 2 {
            body.push(insn(BPF_JMP | BPF_JGE | BPF_K, 0, 1, lo));
            body.push(insn(BPF_JMP | BPF_JGT | BPF_K, 0, MATCH, hi));
        } else {
            body.extend((lo..=hi).map(|value| insn(BPF_JMP | BPF_JEQ | BPF_K, MATCH, 0, value)));
        }
    }
    let len = body.len();
    for (at, step) in body.iter_mut().enumerate() {
        // From the instruction after this one to the one after `fail`.
        let over = u8::try_from(len - at).map_err(|_| FilterError::TooLong(len))?;
        for jump in [&mut step.jt, &mut step.jf] {
            if *jump == MATCH {
                *jump = over;
            }
        }
    }
    out.extend(body);
    out.push(fail);
    Ok(())
}

/// Placeholder of a jump to "matched", replaced once the length is known.
const MATCH: u8 = u8::MAX;

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
