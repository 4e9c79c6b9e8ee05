//! The compiler against an interpreter, against `seccompiler`, and against its length budget.

use std::collections::BTreeMap;

use super::super::syscalls::{self, Switches};
use super::*;

/// Interprets `program` as the kernel would; returns the verdict and the instructions taken.
fn interpret(program: &[Insn], arch: u32, nr: u32, args: [u64; 6]) -> (u32, usize) {
    let word = |offset: u32| -> u32 {
        match offset {
            0 => nr,
            4 => arch,
            _ => {
                let index = ((offset - 16) / 8) as usize;
                if (offset - 16).is_multiple_of(8) { args[index] as u32 } else { (args[index] >> 32) as u32 }
            }
        }
    };
    let (mut a, mut pc, mut steps) = (0u32, 0usize, 0usize);
    loop {
        let i = program[pc];
        steps += 1;
        pc += 1;
        match u32::from(i.code) {
            code if code == BPF_LD | BPF_W | BPF_ABS => a = word(i.k),
            code if code == BPF_ALU | BPF_AND | BPF_K => a &= i.k,
            code if code == BPF_JMP | BPF_JA => pc += i.k as usize,
            code if code == BPF_RET | BPF_K => return (i.k, steps),
            code => {
                let taken = match code & 0xF0 {
                    BPF_JEQ => a == i.k,
                    BPF_JGE => a >= i.k,
                    BPF_JGT => a > i.k,
                    BPF_JSET => a & i.k != 0,
                    _ => panic!("instruction {code:#x}"),
                };
                pc += usize::from(if taken { i.jt } else { i.jf });
            }
        }
    }
}

/// The table read line by line, without any compilation.
fn expected(table: &[Entry], nr: u32, args: [u64; 6]) -> u32 {
    let holds = |test: &Test| match *test {
        Test::OneOf(a, values) => values.contains(&(args[usize::from(a)] as u32)),
        Test::NoBits(a, bits) => args[usize::from(a)] as u32 & bits == 0,
        Test::Masked(a, mask, values) => values.contains(&(args[usize::from(a)] as u32 & mask)),
        Test::Null(a) => args[usize::from(a)] == 0,
    };
    match table.iter().find(|e| e.nr == i64::from(nr)).map(|e| e.rule) {
        None | Some(Rule::Absent) => errno(ERRNO_ENOSYS),
        Some(Rule::Allow) => SECCOMP_RET_ALLOW,
        Some(Rule::Deny) => errno(ERRNO_EPERM),
        Some(Rule::Execute) => SECCOMP_RET_ALLOW,
        Some(Rule::ExecuteWhen(tests)) => {
            if tests.iter().all(holds) {
                SECCOMP_RET_ALLOW
            } else {
                errno(ERRNO_EPERM)
            }
        }
        Some(Rule::When(tests, code)) => {
            if tests.iter().all(holds) {
                SECCOMP_RET_ALLOW
            } else {
                errno(u32::from(code))
            }
        }
    }
}

/// Every combination of switches.
fn all() -> impl Iterator<Item = Switches> {
    (0..64u32).map(|bits| {
        let on = |bit: u32| bits & (1 << bit) != 0;
        Switches { write: on(0), tcp: on(1), watch: on(2), ipc: on(3), memfd: on(4), pty: on(5) }
    })
}

/// None, each alone, and all: no two of them decide one call.
fn each() -> impl Iterator<Item = Switches> {
    [0usize, 1, 2, 4, 8, 16, 32, 63].into_iter().filter_map(|bits| all().nth(bits))
}

/// Argument vectors that reach both sides of each condition.
fn samples(rule: Rule) -> Vec<[u64; 6]> {
    let mut out = vec![[0; 6], [u64::MAX; 6], [1 << 32; 6], [0xFFFF_FFFF_0000_0001; 6]];
    if let Rule::When(tests, _) | Rule::ExecuteWhen(tests) = rule {
        // The product of each argument's interesting values: one test per argument at a time.
        let mut vectors = vec![[0u64; 6]];
        for test in tests {
            let (arg, values): (u8, Vec<u64>) = match *test {
                Test::OneOf(a, v) => (a, v.iter().flat_map(|v| [u64::from(*v), u64::from(*v) + 1]).collect()),
                Test::NoBits(a, bits) => {
                    (a, vec![0, u64::from(bits), u64::from(!bits), u64::from(bits) << 1])
                }
                Test::Masked(a, mask, v) => {
                    (a, v.iter().flat_map(|v| [u64::from(*v), u64::from(!mask | *v), 2, 3]).collect())
                }
                Test::Null(a) => (a, vec![0, 1, 1 << 32, 1 << 63]),
            };
            vectors = vectors
                .iter()
                .flat_map(|base| {
                    values.iter().flat_map(move |v| [*v, *v | 0xABCD_0000_0000_0000]).map(move |v| {
                        let mut next = *base;
                        next[usize::from(arg)] = v;
                        next
                    })
                })
                .collect();
        }
        out.extend(vectors);
    }
    out
}

#[test]
fn tree_gives_the_verdict_of_the_table_for_each_number_and_argument() {
    for switches in each() {
        let table = syscalls::table(switches);
        let program = compile(&table, Answer::Filter).unwrap();
        for nr in 0..700 {
            let rule = table.iter().find(|e| e.nr == i64::from(nr)).map_or(Rule::Absent, |e| e.rule);
            for args in samples(rule) {
                let got = interpret(&program, ARCH_X86_64, nr, args).0;
                assert_eq!(got, expected(&table, nr, args), "{switches:?} nr {nr} args {args:x?}");
            }
        }
    }
}

#[test]
fn e058_other_architectures_and_x32_numbers_kill() {
    let program = compile(&syscalls::table(Switches::default()), Answer::Filter).unwrap();
    for arch in [0x4000_0003, 0, 0xC000_00B7] {
        assert_eq!(interpret(&program, arch, 1, [0; 6]).0, SECCOMP_RET_KILL_PROCESS, "arch {arch:x}");
    }
    for nr in [X32_BIT, X32_BIT + 1, u32::MAX] {
        assert_eq!(interpret(&program, ARCH_X86_64, nr, [0; 6]).0, SECCOMP_RET_KILL_PROCESS, "nr {nr:x}");
    }
}

#[test]
fn parity_with_seccompiler_on_the_allow_set() {
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, TargetArch,
    };
    let cmp = |arg, len, op, value| SeccompCondition::new(arg, len, op, value).unwrap();
    for switches in each() {
        let table = syscalls::table(switches);
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
        for entry in &table {
            match entry.rule {
                Rule::Allow => drop(rules.insert(entry.nr, vec![])),
                Rule::Deny | Rule::Absent => {}
                Rule::Execute => drop(rules.insert(entry.nr, vec![])),
                Rule::When(tests, _) | Rule::ExecuteWhen(tests) => {
                    // Disjunctions become one rule each: the product over all tests.
                    let mut products: Vec<Vec<SeccompCondition>> = vec![vec![]];
                    for test in tests {
                        let options: Vec<SeccompCondition> = match *test {
                            Test::OneOf(a, values) => values
                                .iter()
                                .map(|v| cmp(a, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, u64::from(*v)))
                                .collect(),
                            Test::NoBits(a, bits) => {
                                vec![cmp(
                                    a,
                                    SeccompCmpArgLen::Dword,
                                    SeccompCmpOp::MaskedEq(u64::from(bits)),
                                    0,
                                )]
                            }
                            Test::Masked(a, mask, values) => values
                                .iter()
                                .map(|v| {
                                    let op = SeccompCmpOp::MaskedEq(u64::from(mask));
                                    cmp(a, SeccompCmpArgLen::Dword, op, u64::from(*v))
                                })
                                .collect(),
                            Test::Null(a) => vec![cmp(a, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)],
                        };
                        products = products
                            .into_iter()
                            .flat_map(|p| options.iter().map(move |o| [p.clone(), vec![o.clone()]].concat()))
                            .collect();
                    }
                    let alternatives = products.into_iter().map(|p| SeccompRule::new(p).unwrap()).collect();
                    rules.insert(entry.nr, alternatives);
                }
            }
        }
        let theirs: BpfProgram = SeccompFilter::new(
            rules,
            SeccompAction::Errno(ERRNO_ENOSYS),
            SeccompAction::Allow,
            TargetArch::x86_64,
        )
        .unwrap()
        .try_into()
        .unwrap();
        let theirs: Vec<Insn> =
            theirs.iter().map(|i| Insn { code: i.code, jt: i.jt, jf: i.jf, k: i.k }).collect();
        let ours = compile(&table, Answer::Filter).unwrap();
        for nr in 0..600 {
            let rule = table.iter().find(|e| e.nr == i64::from(nr)).map_or(Rule::Absent, |e| e.rule);
            for args in samples(rule) {
                let allows = |p: &[Insn]| interpret(p, ARCH_X86_64, nr, args).0 == SECCOMP_RET_ALLOW;
                assert_eq!(allows(&ours), allows(&theirs), "{switches:?} nr {nr} args {args:x?}");
            }
        }
    }
}

#[test]
fn filter_stays_within_its_budget() {
    for switches in all() {
        let table = syscalls::table(switches);
        let program = compile(&table, Answer::Supervisor(u32::MAX)).unwrap();
        assert!(program.len() <= 400, "{} instructions in all: {switches:?}", program.len());
        let longest = (0..700)
            .flat_map(|nr| {
                let rule = table.iter().find(|e| e.nr == i64::from(nr)).map_or(Rule::Absent, |e| e.rule);
                samples(rule).into_iter().map(move |args| (nr, args))
            })
            .map(|(nr, args)| interpret(&program, ARCH_X86_64, nr, args).1)
            .max();
        assert!(longest <= Some(100), "{longest:?} instructions on one path");
    }
}

#[test]
fn e069_unknown_numbers_are_absent() {
    let table = syscalls::table(Switches::default());
    let program = compile(&table, Answer::Filter).unwrap();
    for nr in 463..600 {
        assert_eq!(interpret(&program, ARCH_X86_64, nr, [0; 6]).0, errno(ERRNO_ENOSYS), "nr {nr}");
    }
}

#[test]
fn a_supervisor_hears_of_what_is_forbidden_and_of_each_start_but_its_own() {
    const MARK: u32 = 0x89AB_CDEF;
    let told = SECCOMP_RET_USER_NOTIF;
    for switches in each() {
        let table = syscalls::table(switches);
        let quiet = compile(&table, Answer::Filter).unwrap();
        let telling = compile(&table, Answer::Supervisor(MARK)).unwrap();
        for nr in 0..600 {
            let rule = table.iter().find(|e| e.nr == i64::from(nr)).map_or(Rule::Absent, |e| e.rule);
            for args in samples(rule) {
                let verdict = |p: &[Insn]| interpret(p, ARCH_X86_64, nr, args).0;
                let expected = match verdict(&quiet) {
                    SECCOMP_RET_ALLOW if matches!(rule, Rule::Execute | Rule::ExecuteWhen(_)) => told,
                    code if code == errno(ERRNO_EPERM)
                        && !matches!(rule, Rule::Execute | Rule::ExecuteWhen(_)) =>
                    {
                        told
                    }
                    code => code,
                };
                assert_eq!(verdict(&telling), expected, "{switches:?} nr {nr} args {args:x?}");
            }
        }
        for (mark, expected) in [(MARK, SECCOMP_RET_ALLOW), (MARK ^ 1, told), (0, told)] {
            let args = [1, 2, 3, u64::from(mark) | 7 << 32, 0, 0];
            assert_eq!(interpret(&telling, ARCH_X86_64, libc::SYS_execve as u32, args).0, expected);
        }
    }
}

#[test]
fn e066_e067_e068_no_input_into_a_terminal_in_any_spelling() {
    // TIOCSTI, TIOCLINUX, TIOCSETD, and TIOCSCTTY but for those who may have a terminal of their own; the
    // kernel looks at the low half only.
    for switches in all() {
        let program = compile(&syscalls::table(switches), Answer::Filter).unwrap();
        let own = (!switches.pty).then_some(0x540E);
        for request in [0x5412, 0x541C, 0x5423].into_iter().chain(own) {
            for high in [0, 1 << 32, 0xFFFF_FFFF << 32, 0x5401 << 32] {
                let args = [0, request | high, 0, 0, 0, 0];
                let verdict = interpret(&program, ARCH_X86_64, libc::SYS_ioctl as u32, args).0;
                assert_eq!(verdict, errno(libc::ENOTTY as u32), "{request:x} {high:x}");
            }
        }
    }
}
