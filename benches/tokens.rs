//! What ten look-ups cost as one batch, in bytes of requests and replies, against ten calls.
//!
//! `cargo bench --bench tokens`. The bar is that of the design: at most 35 % of the single calls. A test
//! holds it, too (`command_run::tokens`); no clock is involved.
#![allow(clippy::disallowed_methods, reason = "the built program is started to be measured")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a benchmark that cannot run must say why and stop"
)]

#[path = "common/tokens.rs"]
mod tokens;

fn main() {
    let figures = tokens::measure(env!("CARGO_BIN_EXE_cofferdam"));
    println!("ten look-ups that print {} bytes", figures.outputs);
    println!("{:<44} {:>9} {:>9} {:>9}", "", "requests", "replies", "share");
    let row = |name: &str, bytes: tokens::Bytes| {
        let share = figures.percent(bytes);
        println!("{name:<44} {:>9} {:>9} {share:>8.1}%", bytes.requests, bytes.replies);
    };
    row("ten calls of sh_run", figures.single);
    row("one command_run, program and args", figures.argv);
    row("one command_run, with command_type", figures.typed);
    row("one command_run, command_line", figures.lines);
    let [kit, both, alone] = figures.lists;
    println!(
        "tools/list: {kit} bytes with six tools, {both} with command_run too, {alone} with command_run alone"
    );
}
