//! The program files that are compiled in.
//!
//! Purpose: from a base name to its grammar. Files are parsed when first asked for, so that a start
//! pays only for the programs of its policy; a test parses all of them. Called by `judge`.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use super::library::Grammar;

/// One file: the base names it is about (a test compares them with the file), and its text.
struct Shipped {
    names: &'static [&'static str],
    text: &'static str,
    compiled: OnceLock<Result<Grammar, String>>,
}

macro_rules! shipped {
    ($($file:literal: $($name:literal)+;)+) => {
        static FILES: [Shipped; [$($file),+].len()] = [$(Shipped {
            names: &[$($name),+],
            text: include_str!(concat!("../../../policy/programs/", $file, ".toml")),
            compiled: OnceLock::new(),
        }),+];
    };
}

// File without its suffix, and the base names it is about.
shipped! {
    "ack": "ack" "ack-grep";
    "ag": "ag";
    "awk": "awk" "gawk" "mawk" "nawk" "original-awk";
    "bat": "bat" "batcat";
    "cargo": "cargo";
    "cat": "cat" "gcat";
    "cloc": "cloc";
    "cmake": "cmake" "cmake3";
    "cp": "cp" "gcp";
    "csplit": "csplit" "gcsplit";
    "csvtool": "csvtool";
    "cut": "cut" "gcut";
    "date": "date" "gdate";
    "dd": "dd" "gdd";
    "diff": "diff" "gdiff";
    "diff3": "diff3" "gdiff3";
    "dmesg": "dmesg";
    "dmidecode": "dmidecode";
    "du": "du" "gdu";
    "echo": "echo" "gecho";
    "fd": "fd" "fdfind";
    "ffmpeg": "ffmpeg" "ffprobe" "ffplay" "avconv" "avprobe";
    "file": "file";
    "find": "find" "gfind" "bfind" "bfs";
    "gcc": "gcc" "g++" "cc" "c++" "c89" "c99" "gfortran";
    "getent": "getent";
    "git": "git";
    "go": "go";
    "grep": "grep" "ggrep" "egrep" "fgrep" "gegrep" "gfgrep" "rgrep";
    "head": "head" "ghead";
    "install": "install" "ginstall";
    "jq": "jq" "gojq" "jaq";
    "ld": "ld" "ld.bfd" "ld.gold" "ld.lld" "gold";
    "ldconfig": "ldconfig" "ldconfig.real";
    "ln": "ln" "gln";
    "ls": "ls" "gls" "dir" "vdir";
    "magick":
        "magick" "convert" "identify" "mogrify" "composite" "montage" "compare" "stream" "display" "animate"
        "import" "conjure" "magick-script" "convert-im6" "convert-im6.q16" "identify-im6.q16"
        "mogrify-im6.q16" "composite-im6.q16" "montage-im6.q16" "compare-im6.q16" "stream-im6.q16"
        "display-im6.q16" "animate-im6.q16" "import-im6.q16" "conjure-im6.q16" "convert-im7.q16"
        "magick-im7.q16" "gm";
    "make": "make" "gmake";
    "mv": "mv" "gmv";
    "nc": "nc" "netcat" "nc.openbsd";
    "nm": "nm" "gnm" "eu-nm";
    "npm": "npm";
    "pandoc": "pandoc";
    "pidstat": "pidstat";
    "pip": "pip";
    "printf": "printf" "gprintf";
    "pwd": "pwd" "gpwd";
    "pytest": "pytest" "py.test";
    "rg": "rg";
    "sdiff": "sdiff" "gsdiff";
    "sed": "sed" "gsed";
    "shuf": "shuf" "gshuf";
    "sort": "sort" "gsort";
    "split": "split" "gsplit";
    "ssh-keygen": "ssh-keygen";
    "stat": "stat" "gstat";
    "strip": "strip" "gstrip";
    "sysctl": "sysctl";
    "tail": "tail" "gtail";
    "tar": "tar" "gtar" "bsdtar";
    "tcpdump": "tcpdump";
    "tee": "tee" "gtee";
    "tr": "tr" "gtr";
    "true": "true" "false" "gtrue" "gfalse";
    "uniq": "uniq" "guniq";
    "wc": "wc" "gwc";
    "xorriso": "xorriso" "osirrox" "xorrecord";
    "yq": "yq";
    "zic": "zic";
}

static BY_NAME: LazyLock<HashMap<&'static [u8], usize>> = LazyLock::new(|| {
    let names = |(index, file): (usize, &'static Shipped)| {
        file.names.iter().map(move |name| (name.as_bytes(), index))
    };
    FILES.iter().enumerate().flat_map(names).collect()
});

/// The grammar of the program with this base name, if there is a file for it.
///
/// # Errors
/// When the file is broken, which a test of the build would have found.
pub fn find(name: &[u8]) -> Result<Option<&'static Grammar>, String> {
    let Some(file) = BY_NAME.get(name).and_then(|index| FILES.get(*index)) else { return Ok(None) };
    match file.compiled.get_or_init(|| Grammar::parse(file.text)) {
        Ok(grammar) => Ok(Some(grammar)),
        Err(problem) => Err(problem.clone()),
    }
}

/// Every base name that has a file.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().flat_map(|file| file.names.iter().copied())
}

/// Every file, loaded.
///
/// # Errors
/// When one is broken.
pub fn programs() -> Result<Vec<&'static Grammar>, String> {
    let first = FILES.iter().filter_map(|file| file.names.first());
    first.filter_map(|name| find(name.as_bytes()).transpose()).collect()
}
