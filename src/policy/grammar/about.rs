//! What a rule is about, in words.
//!
//! Purpose: the rule table says which options, operands or texts a rule refuses, and under which
//! condition. Nothing is decided by it. Inputs: the rule as written, and the options that the node
//! declares. Called by `compile` only.

use super::compile::Options;
use super::schema::{Deny, Position, Text};

/// Of a refusal in `node`: `-o/--output`, `operand 2`, `this subcommand`, with its conditions.
pub(super) fn about(node: &str, deny: &Deny, options: &Options) -> String {
    let mut text = match (&deny.operand, deny.options.is_empty()) {
        // The entry `*` has the id of its program.
        (None, true) if !node.contains('.') => "every subcommand without an entry".to_owned(),
        (None, true) => "this subcommand".to_owned(),
        (None, false) => spelled(&deny.options, options),
        (Some(position), _) => operand(position),
    };
    let that = if deny.operand.is_some() { " that" } else { " with a value that" };
    if let Some(value) = &deny.value {
        text.push_str(&format!("{that} matches `{value}`"));
    }
    if let Some(except) = &deny.except {
        let joint = if deny.value.is_some() { " and" } else { that };
        text.push_str(&format!("{joint} does not match `{except}`"));
    }
    text.push_str(&lifted(&deny.unless, options));
    text
}

/// Of a finding in program text.
pub(super) fn text_about(text: &Text, options: &Options) -> String {
    let mut places = Vec::new();
    if !text.options.is_empty() {
        places.push(spelled(&text.options, options));
    }
    if let Some(number) = text.operand {
        places.push(format!("operand {number}{}", lifted(&text.unless, options)));
    }
    format!("program text in {}", places.join(" or "))
}

fn operand(position: &Position) -> String {
    match position {
        Position::Exact(number) => format!("operand {number}"),
        Position::Words(words) => match words.strip_suffix("..") {
            Some(first) => format!("each operand from number {first} on"),
            None if words == "element" => "any argument".to_owned(),
            None => "any operand".to_owned(),
        },
    }
}

fn lifted(unless: &[String], options: &Options) -> String {
    if unless.is_empty() {
        return String::new();
    }
    format!(", unless {} is given", spelled(unless, options))
}

/// Each option once under all of its names, whichever of them the rule was written with.
fn spelled(names: &[String], options: &Options) -> String {
    let mut groups: Vec<String> = Vec::new();
    for name in names {
        let names: Vec<String> = options.names(name).iter().map(|name| format!("`{name}`")).collect();
        let group = names.join("/");
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups.join(", ")
}
