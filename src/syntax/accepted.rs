//! What the subset takes, as a table: `docs/shell-syntax.md` prints it, the corpus has lines for each row.
//!
//! Purpose: the document and the tests speak of the same constructs. Inputs: none. Read by tests.

/// A construct that lines may have.
#[derive(Debug)]
pub struct Accepted {
    /// Stable name, as the corpus spells it.
    pub id: &'static str,
    /// A line that has it.
    pub example: &'static str,
    /// What it does here, and where that is not what a shell does.
    pub meaning: &'static str,
}

macro_rules! accepted {
    ($($id:literal, $example:literal, $meaning:literal;)*) => {
        /// Every row, in the order of the document.
        pub static ACCEPTED: &[Accepted] =
            &[$(Accepted { id: $id, example: $example, meaning: $meaning }),*];
    };
}

accepted! {
    "words", "wc -l a.txt", "a name, which is plain text, and its arguments; `true`, `test`, `[` and `:` are looked up like any other name";
    "single-quotes", "echo 'a b'", "text";
    "double-quotes", "echo \"a $WORD\"", "text with variables; `\\` before `$`, a backtick, `\"`, `\\` and a newline";
    "escape", "echo a\\ b", "the next character is text";
    "joined-line", "echo a \\\nb", "a `\\` before a newline joins two lines";
    "comment", "echo a # why", "from a `#` where a word could begin to the end of the line";
    "newline", "echo a\necho b", "as `;`; after `|`, `&&`, `||`, `(` and `{` it is a blank";
    "semicolon", "echo a; echo b", "one after the other, whatever the status; the last status counts";
    "pipe", "cat a.txt | wc -l", "the output of each is the input of the next";
    "pipe-stderr", "cat missing.txt |& wc -l", "as `2>&1 |`";
    "and", "true && echo yes", "only after success";
    "or", "false || echo no", "only after failure";
    "and-or", "true && echo a || echo b", "`&&` and `||` bind alike, from the left";
    "negation", "! false", "turns the status of a pipeline round; a blank follows it";
    "group-parentheses", "( echo a; echo b ) | wc -l", "several commands as one; no state, so nothing leaves it";
    "group-braces", "{ echo a; echo b; } > out.txt", "the same; `cd` stands between parentheses only";
    "input", "cat < a.txt", "stdin from a file; `0<` is the same";
    "output", "echo a > out.txt", "stdout into a file, made or emptied; `1>` is the same; files of redirections lie below the working directory, no link on the way, and are written in a writable workspace only";
    "append", "echo a >> out.txt", "stdout to the end of a file";
    "stderr-output", "cat missing.txt 2> err.txt", "stderr into a file";
    "stderr-append", "cat missing.txt 2>> err.txt", "stderr to the end of a file";
    "stderr-to-stdout", "cat missing.txt 2>&1", "stderr to where stdout leads at this moment";
    "stdout-to-stderr", "echo a 1>&2", "stdout to where stderr leads; `>&2` is the same";
    "both-output", "ls &> out.txt", "as `> out.txt 2>&1`; `&>>` appends";
    "dev-null", "echo a > /dev/null", "a target like any other for the parser";
    "here-document", "cat <<E\n$WORD\nE", "stdin is the text; variables in it are replaced";
    "here-document-verbatim", "cat <<'E'\n$WORD\nE", "any quote in the delimiter: the text is taken as it is";
    "here-document-tabs", "cat <<-E\n\ta\n\tE", "tabs at the beginning of its lines are dropped";
    "here-string", "cat <<< hello", "stdin is the word and a newline";
    "star", "echo *.txt", "names of files as they are before the line starts, sorted by bytes; without a match the word stays; a name that begins with `.` matches only a written `.`; links are named, not gone through";
    "question", "echo ?.txt", "one character";
    "class", "echo [a-c].txt", "one of these characters; `[!…]` none of them; ranges by code point, `[:alpha:]` by ASCII; an open `[` is text";
    "globstar", "echo **/*.txt", "`**` as a whole component: any directories, hidden ones left out (bash with `globstar`); elsewhere as `*`";
    "alternatives", "echo {a,b}.txt", "one word each; without a comma or an end `{` is text";
    "tilde", "echo ~/a.txt", "the home directory (`HOME` of `[environment] set`), alone or before `/`";
    "directory", "cd dir && ls", "the working directory of what follows; first in its list, so that it always runs; what follows is refused if there is no such directory";
    "assignment", "LC_ALL=C sort b.txt", "a variable for one command, for names that the policy passes";
    "variable", "echo $WORD ${WORD}", "for names that the policy passes; never split: unquoted, with blanks, patterns or nothing in it, it is refused, and \"$NAME\" is whole";
    "placeholder", "echo '#@#${meta.version}#@#$'", "in a batch only: text of an earlier result, in any quotes, put in after the line was read";
}
