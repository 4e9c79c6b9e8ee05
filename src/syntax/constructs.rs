//! What the subset leaves out, as a table: the parser refuses by its rows, `docs/shell-syntax.md` prints them.
//!
//! Purpose: no refusal without a name, an example and a remedy. Inputs: none. Read by the parser and by
//! the test that writes the document.

use super::refusal::Construct;

macro_rules! constructs {
    ($($constant:ident = $id:literal, $name:literal, $example:literal, $instead:literal;)*) => {
        $(pub(super) static $constant: Construct =
            Construct { id: $id, name: $name, example: $example, instead: $instead };)*
        /// Every row, in the order of the document.
        pub static REFUSED: &[&Construct] = &[$(&$constant),*];
    };
}

constructs! {
    COMMAND_SUBSTITUTION = "command-substitution", "command substitution '$(…)'", "echo $(date)",
        "run the inner command first and give its output as an argument (command_run binds it with a placeholder)";
    BACKTICK = "backtick", "command substitution with backticks", "echo `date`",
        "run the inner command first; a backtick that is meant as text stands between single quotes";
    PROCESS_SUBSTITUTION = "process-substitution", "process substitution '<(…)'", "diff <(sort a.txt) b.txt",
        "write the inner output to a file first, or use a pipe and '-'";
    ARITHMETIC = "arithmetic", "arithmetic '$((…))'", "echo $((1+2))",
        "compute the value and write it down, or run a program such as 'expr'";
    PARAMETER_EXPANSION = "parameter-expansion", "parameter expansion '${x…}'", "echo ${x:-y}",
        "write '$NAME' or '${NAME}', or the value itself";
    SPECIAL_PARAMETER = "special-parameter", "special parameter", "echo $?",
        "the status of each command is in the reply; text with '$' stands between single quotes";
    ANSI_QUOTE = "ansi-c-quote", "quoting '$'…''", "printf $'a\\tb'",
        "use '…' or \"…\", or let printf write the character";
    LOCALE_QUOTE = "locale-quote", "translated text '$\"…\"'", "echo $\"hello\"", "use \"…\"";
    BROKEN_NAME = "broken-name", "variable whose name goes over a line end, or beside alternatives", "echo $A\\\nB",
        "write '${NAME}', or quote the '$'";
    FUNCTION = "function", "function", "f() { echo a.txt; }", "write its commands where they are called";
    LOOP = "loop", "loop", "for f in a b; do echo $f; done",
        "give the program all files at once ('wc -l *.txt'), or write one command an item";
    CONDITIONAL = "conditional", "conditional", "if true; then echo yes; fi", "use '&&' and '||'";
    CASE = "case", "case", "case a in a) echo yes;; esac", "use 'test … &&'";
    DOUBLE_BRACKET = "double-bracket", "'[[ … ]]'", "[[ -f a.txt ]]", "use 'test' or '[ … ]'";
    COPROCESS = "coprocess", "coprocess", "coproc cat", "use a pipeline, or start a job";
    TIMED = "time", "keyword 'time'", "time ls", "leave it out: each reply says how long it took";
    RESERVED = "reserved-word", "word that a shell reserves", "done", "quote it if it is the name of a program";
    BACKGROUND = "background", "background '&'", "sleep 1 &",
        "leave it out, or start the command as a job; an '&' that is meant as text is quoted";
    EVAL = "eval", "text run as commands", "eval ls", "write the commands themselves";
    EXEC = "exec", "exec", "exec ls", "write the command without it";
    SOURCE = "source", "script read into the shell", ". ./env.sh", "run its commands by themselves";
    EXPORT = "export", "variables that stay set", "export A=1",
        "write 'NAME=value command', for names that the policy passes";
    ALIAS = "alias", "alias", "alias ll='ls -l'", "write the command itself";
    SET = "set", "options of the shell", "set -e",
        "join commands with '&&'; the status of a pipeline is that of its last command";
    TRAP = "trap", "trap", "trap true EXIT", "leave it out: nothing outlives a run";
    WRAPPER_BUILTIN = "builtin-wrapper", "builtin that picks another command", "command ls", "write the command without it";
    SHELL_BUILTIN = "shell-builtin", "builtin of a shell that no program stands for", "read x",
        "run a program that does the work; no state is kept between commands";
    EXIT = "exit", "leaving the shell", "exit 1", "join commands with '&&' so that a failure ends the line";
    ASSIGNMENT_ALONE = "assignment-alone", "assignment without a command", "A=1; echo $A",
        "write the value itself, or 'NAME=value command'";
    ARRAY = "array", "array or '+='", "a=(1 2)", "write the values themselves";
    HISTORY = "history", "history '!…'", "!ls", "write the command itself; to negate one, put a space after '!'";
    COMMAND_NAME = "command-name", "name of a command that is not plain text", "$EDITOR a.txt",
        "write the name of the program out";
    REDIRECTION_ALONE = "redirection-alone", "redirection without a command", "> a.txt",
        "write ': > FILE', or the command whose output it is";
    DESCRIPTOR = "descriptor", "redirection of this descriptor", "echo a 3> out.txt",
        "only 0, 1 and 2 exist: '<', '>', '>>', '2>', '2>>', '2>&1', '1>&2', '&>'";
    REDIRECTION_FORM = "redirection-form", "this form of redirection", "echo a >| out.txt",
        "write '>', '>>', '<', '2>&1' or '&> FILE'";
    REDIRECTION_TARGET = "redirection-target", "pattern as the target of a redirection", "cat < *.txt",
        "name one file, or quote it";
    HERE_DOCUMENT_OPEN = "here-document-open", "here-document without its end", "cat <<E\ntext",
        "put the delimiter on a line of its own after the text";
    HERE_DOCUMENT_DELIMITER = "here-document-delimiter", "delimiter of a here-document that is not plain text",
        "cat <<$A\n$A\n", "write letters, quoted if the text is to be taken as it is";
    EXTENDED_GLOB = "extended-glob", "pattern with parentheses", "ls *(a|b)", "write '{a,b}', or quote the word";
    PARENTHESIS = "parenthesis", "parenthesis", "ls )", "quote it ('\\(') if it is an argument";
    BRACKET = "bracket", "quote, brace or backwards range between '[' and ']'", "ls [\"a\"]",
        "quote the whole word, or write plain characters and ranges";
    SEQUENCE = "brace-sequence", "sequence '{1..3}'", "echo {1..3}", "write the alternatives, or use 'seq'";
    BRACE = "brace", "brace", "}",
        "a group is '{ command; }'; a brace that is meant as text is quoted";
    TILDE = "tilde", "'~' before a name or a quote, or in 'NAME=…'", "ls ~user/", "write '~/…', or the path itself";
    DIRECTORY_PLACE = "cd-place", "'cd' in this place", "true && cd dir && ls",
        "begin the line with 'cd DIR &&', or write '( cd DIR && … )'";
    DIRECTORY_OPERAND = "cd-operand", "'cd' with this operand", "cd - && ls",
        "name one directory: 'cd DIR && …'";
    CONTROL_CHARACTER = "control-character", "control character or unusual space outside of quotes", "ls\u{c}",
        "write spaces, tabs and newlines; quote any other";
    NUL = "nul", "NUL character", "echo \0", "no argument can hold it";
    OPEN_QUOTE = "open-quote", "quote that is not closed", "echo 'a", "close it, or escape it with '\\'";
    OPEN_ESCAPE = "open-escape", "'\\' at the end of the line", "echo a\\", "write '\\\\' for a backslash";
    MISSING_COMMAND = "missing-command", "place where a command is missing", "ls | ",
        "write a command on both sides of an operator, between '(' and ')', and after '!'";
    MISSING_TARGET = "missing-target", "redirection without its target", "ls >", "name the file after it";
    AFTER_GROUP = "after-group", "word after a group", "( ls ) a", "only redirections and operators follow a group";
    OPEN_GROUP = "open-group", "group that is not closed", "( ls", "close it with ')' or '; }'";
    PLACEHOLDER = "placeholder", "malformed placeholder (in a batch)", "echo #@#${x}#@#$",
        "write '#@#${id.field}#@#$': exit_code, stdout, stderr, or a path into JSON such as 'id.items.0.name'";
    TOO_LONG = "too-long", "line that is too long", "", "put the text into a file or into stdin";
    TOO_MANY = "too-many", "line with too many words, commands or here-documents", "", "make several requests of it";
    TOO_DEEP = "too-deep", "line that is nested too deeply", "", "make several requests of it";
}

/// Words that a shell reserves where a command begins.
pub(super) fn reserved(word: &str) -> Option<&'static Construct> {
    Some(match word {
        "if" => &CONDITIONAL,
        "for" | "while" | "until" | "select" => &LOOP,
        "case" => &CASE,
        "function" => &FUNCTION,
        "[[" => &DOUBLE_BRACKET,
        "coproc" => &COPROCESS,
        "time" => &TIMED,
        "then" | "else" | "elif" | "fi" | "do" | "done" | "esac" => &RESERVED,
        "}" => &BRACE,
        _ => return None,
    })
}

/// Builtins, quoted or not: no program does their work.
pub(super) fn builtin(name: &str) -> Option<&'static Construct> {
    Some(match name {
        "eval" => &EVAL,
        "exec" => &EXEC,
        "source" | "." => &SOURCE,
        "export" | "readonly" | "declare" | "typeset" | "local" | "unset" | "let" => &EXPORT,
        "alias" | "unalias" => &ALIAS,
        "set" | "shopt" | "setopt" | "emulate" => &SET,
        "trap" => &TRAP,
        "command" | "builtin" | "enable" => &WRAPPER_BUILTIN,
        "exit" | "return" | "break" | "continue" | "logout" => &EXIT,
        "read" | "mapfile" | "readarray" | "shift" | "getopts" | "hash" | "umask" | "ulimit" | "wait"
        | "jobs" | "fg" | "bg" | "disown" | "suspend" | "times" | "type" | "caller" | "pushd" | "popd"
        | "dirs" | "history" | "fc" | "bind" | "complete" | "compgen" | "compopt" | "zmodload"
        | "autoload" => &SHELL_BUILTIN,
        _ => return None,
    })
}
