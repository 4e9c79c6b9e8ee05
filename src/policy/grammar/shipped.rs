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
    "7z": "7z" "7za" "7zr" "7zz" "7zzs";
    "a2ps": "a2ps";
    "ab": "ab" "abs";
    "ack": "ack" "ack-grep";
    "addr2line": "addr2line" "gaddr2line";
    "ag": "ag";
    "age": "age" "rage";
    "ar": "ar" "gar";
    "aria2c": "aria2c";
    "arj": "arj";
    "arp": "arp";
    "as": "as" "gas" "x86_64-linux-gnu-as" "aarch64-linux-gnu-as";
    "awk": "awk" "gawk" "mawk" "nawk" "original-awk";
    "base58": "base58";
    "base64": "base64" "base32" "basenc" "gbase64" "gbase32" "gbasenc";
    "basename": "basename" "gbasename";
    "bat": "bat" "batcat";
    "bc": "bc";
    "bison": "bison" "yacc" "bison.yacc";
    "busybox": "busybox" "toybox";
    "bzip2": "bzip2" "bunzip2" "bzcat" "bzip2recover" "pbzip2" "lbzip2";
    "c++filt": "c++filt" "gc++filt";
    "cal": "cal" "ncal";
    "cargo": "cargo";
    "cat": "cat" "gcat";
    "chmod": "chmod" "gchmod";
    "chown": "chown" "chgrp" "gchown" "gchgrp";
    "cksum": "cksum" "md5sum" "sha1sum" "sha224sum" "sha256sum" "sha384sum" "sha512sum" "b2sum" "gcksum"
        "gmd5sum" "gsha1sum" "gsha224sum" "gsha256sum" "gsha384sum" "gsha512sum" "gb2sum";
    "clang": "clang" "clang++" "clang-cpp" "clang-14" "clang-15" "clang-16" "clang-17" "clang-18"
        "clang-19" "clang-20" "clang-21" "clang++-14" "clang++-15" "clang++-16" "clang++-17" "clang++-18"
        "clang++-19" "clang++-20" "clang++-21";
    "clang-format": "clang-format" "clang-format-14" "clang-format-15" "clang-format-16" "clang-format-17"
        "clang-format-18" "clang-format-19" "clang-format-20" "clang-format-21";
    "clang-tidy": "clang-tidy" "clang-tidy-14" "clang-tidy-15" "clang-tidy-16" "clang-tidy-17"
        "clang-tidy-18" "clang-tidy-19" "clang-tidy-20" "clang-tidy-21";
    "cloc": "cloc";
    "cmake": "cmake" "cmake3";
    "cmp": "cmp" "gcmp";
    "col": "col";
    "colrm": "colrm";
    "column": "column";
    "comm": "comm" "gcomm";
    "compress": "compress" "uncompress";
    "coverage": "coverage" "coverage3" "python3-coverage";
    "cp": "cp" "gcp";
    "cpack": "cpack" "cpack3";
    "cpio": "cpio" "bsdcpio" "gcpio" "gbsdcpio";
    "cppcheck": "cppcheck";
    "cscope": "cscope" "cscope-indexer";
    "csplit": "csplit" "gcsplit";
    "csvtool": "csvtool";
    "ctags": "ctags" "etags" "ctags-universal" "ctags-exuberant" "exuberant-ctags" "universal-ctags"
        "readtags" "ctags.emacs" "etags.emacs";
    "ctest": "ctest" "ctest3";
    "curl": "curl";
    "cut": "cut" "gcut";
    "date": "date" "gdate";
    "dd": "dd" "gdd";
    "delv": "delv";
    "df": "df" "gdf";
    "diff": "diff" "gdiff";
    "diff3": "diff3" "gdiff3";
    "dig": "dig" "mdig";
    "dirname": "dirname" "gdirname";
    "dmesg": "dmesg";
    "dmidecode": "dmidecode";
    "dos2unix": "dos2unix" "unix2dos" "mac2unix" "unix2mac";
    "dot": "dot" "neato" "twopi" "circo" "fdp" "sfdp" "patchwork" "osage" "nop" "nop1" "nop2";
    "doxygen": "doxygen";
    "drill": "drill";
    "du": "du" "gdu";
    "dumpcap": "dumpcap";
    "dvipdfmx": "dvipdfmx" "dvipdfm" "xdvipdfmx" "ebb" "extractbb" "dvipdft";
    "dvips": "dvips" "odvips" "pdvips";
    "echo": "echo" "gecho";
    "enscript": "enscript";
    "env": "env" "genv";
    "expand": "expand" "unexpand" "gexpand" "gunexpand";
    "expr": "expr" "gexpr";
    "factor": "factor" "gfactor";
    "fd": "fd" "fdfind";
    "ffmpeg": "ffmpeg" "ffprobe" "ffplay" "avconv" "avprobe";
    "file": "file";
    "find": "find" "gfind" "bfind" "bfs";
    "finger": "finger";
    "flake8": "flake8";
    "flex": "flex" "lex" "flex++";
    "fmt": "fmt" "gfmt";
    "fold": "fold" "gfold";
    "free": "free";
    "funzip": "funzip";
    "gcc": "gcc" "g++" "cc" "c++" "c89" "c99" "cpp" "gfortran" "gccgo" "gdc" "gcc-9" "gcc-10" "gcc-11"
        "gcc-12" "gcc-13" "gcc-14" "gcc-15" "g++-9" "g++-10" "g++-11" "g++-12" "g++-13" "g++-14" "g++-15"
        "c89-gcc" "c99-gcc" "x86_64-linux-gnu-gcc" "x86_64-linux-gnu-g++" "aarch64-linux-gnu-gcc"
        "aarch64-linux-gnu-g++";
    "genisoimage": "genisoimage" "mkisofs" "xorrisofs" "mkhybrid";
    "getent": "getent";
    "getopt": "getopt";
    "git": "git";
    "go": "go";
    "gpg": "gpg" "gpg2" "gpg1";
    "gpgv": "gpgv" "gpgv2" "gpgv1" "gpgv-static";
    "grep": "grep" "ggrep" "egrep" "fgrep" "gegrep" "gfgrep" "rgrep";
    "groff": "groff";
    "gzip": "gzip" "gunzip" "zcat" "pigz" "unpigz" "ggzip" "ggunzip" "gzcat" "gpigz" "gunpigz";
    "head": "head" "ghead";
    "hexdump": "hexdump" "hd";
    "hg": "hg";
    "highlight": "highlight";
    "host": "host";
    "hostname": "hostname";
    "http": "http" "https" "httpie" "xh" "xhs";
    "iconv": "iconv";
    "id": "id" "gid";
    "install": "install" "ginstall";
    "ionice": "ionice";
    "ip": "ip" "bridge" "tc";
    "javac": "javac";
    "javadoc": "javadoc";
    "javap": "javap" "jar" "jdeps" "jmod" "jlink" "jimage" "serialver" "jdeprscan";
    "join": "join" "gjoin";
    "jq": "jq" "gojq" "jaq";
    "kdig": "kdig" "khost" "knslookup";
    "latexmk": "latexmk";
    "ld": "ld" "ld.bfd" "ld.gold" "ld.lld" "gold" "lld" "ld64.lld" "wasm-ld" "ld.mold" "mold"
        "x86_64-linux-gnu-ld" "x86_64-linux-gnu-ld.bfd" "x86_64-linux-gnu-ld.gold" "aarch64-linux-gnu-ld";
    "ldapsearch": "ldapsearch";
    "ldconfig": "ldconfig" "ldconfig.real";
    "less": "less" "zless";
    "link": "link" "unlink" "glink" "gunlink";
    "ln": "ln" "gln";
    "logger": "logger";
    "look": "look";
    "ls": "ls" "gls" "dir" "vdir";
    "lwp-request": "lwp-request" "lwp-dump" "lwp-mirror" "lwp-download" "GET" "HEAD" "POST";
    "lz4": "lz4" "lz4c" "lz4cat" "unlz4";
    "magick": "magick" "convert" "identify" "mogrify" "composite" "montage" "compare" "stream" "display"
        "animate" "import" "conjure" "magick-script" "convert-im6" "convert-im6.q16" "identify-im6.q16"
        "mogrify-im6.q16" "composite-im6.q16" "montage-im6.q16" "compare-im6.q16" "stream-im6.q16"
        "display-im6.q16" "animate-im6.q16" "import-im6.q16" "conjure-im6.q16" "convert-im7.q16"
        "magick-im7.q16" "gm";
    "make": "make" "gmake";
    "man": "man";
    "mkdir": "mkdir" "mkfifo" "mknod" "gmkdir" "gmkfifo" "gmknod";
    "mksquashfs": "mksquashfs" "unsquashfs" "sqfstar" "sqfscat" "gensquashfs" "tar2sqfs" "rdsquashfs";
    "mktemp": "mktemp" "gmktemp";
    "more": "more";
    "most": "most";
    "mpost": "mpost" "dvitomp" "pmpost" "upmpost" "r-mpost";
    "msgcat": "msgcat" "msguniq" "msgcomm" "msgconv" "msgen" "msgattrib";
    "msgfmt": "msgfmt" "msgunfmt" "gmsgfmt";
    "msggrep": "msggrep";
    "mtr": "mtr" "mtr-tiny";
    "mutool": "mutool";
    "mv": "mv" "gmv";
    "mypy": "mypy";
    "mysql": "mysql" "mariadb";
    "mysqldump": "mysqldump" "mariadb-dump";
    "nasm": "nasm" "yasm";
    "nc": "nc" "netcat" "nc.openbsd";
    "nice": "nice" "gnice";
    "nl": "nl" "gnl";
    "nm": "nm" "gnm" "eu-nm" "llvm-nm" "gcc-nm" "x86_64-linux-gnu-nm";
    "nmap": "nmap";
    "nohup": "nohup" "gnohup";
    "npm": "npm";
    "nproc": "nproc" "gnproc";
    "nroff": "nroff";
    "nslookup": "nslookup";
    "numfmt": "numfmt" "gnumfmt";
    "objcopy": "objcopy" "gobjcopy";
    "objdump": "objdump" "gobjdump";
    "od": "od" "god";
    "openssl": "openssl";
    "opt": "opt" "llc" "llvm-lto" "llvm-lto2" "opt-14" "opt-15" "opt-16" "opt-17" "opt-18" "opt-19"
        "opt-20" "opt-21" "llc-14" "llc-15" "llc-16" "llc-17" "llc-18" "llc-19" "llc-20" "llc-21";
    "pandoc": "pandoc";
    "paste": "paste" "gpaste";
    "patch": "patch" "gpatch";
    "pathchk": "pathchk" "gpathchk";
    "pax": "pax" "paxtar";
    "pg_dump": "pg_dump" "pg_dumpall";
    "pg_restore": "pg_restore";
    "pic": "pic" "gpic" "dpic";
    "pidstat": "pidstat";
    "ping": "ping" "ping4" "ping6";
    "pip": "pip";
    "pr": "pr" "gpr";
    "prettier": "prettier";
    "printf": "printf" "gprintf";
    "protoc": "protoc";
    "ps": "ps";
    "psql": "psql";
    "ptx": "ptx" "gptx";
    "pwd": "pwd" "gpwd";
    "pygmentize": "pygmentize" "pygmentize3";
    "pylint": "pylint" "pylint3" "epylint";
    "pyright": "pyright" "basedpyright";
    "pytest": "pytest" "py.test" "pytest-3";
    "ranlib": "ranlib" "granlib";
    "rar": "rar" "unrar";
    "readelf": "readelf" "greadelf";
    "readlink": "readlink" "greadlink";
    "realpath": "realpath" "grealpath";
    "recode": "recode";
    "redis-cli": "redis-cli" "valkey-cli" "keydb-cli";
    "rev": "rev";
    "rg": "rg";
    "rm": "rm" "grm";
    "rmdir": "rmdir" "grmdir";
    "rsync": "rsync";
    "rustc": "rustc";
    "rustdoc": "rustdoc";
    "rustfmt": "rustfmt";
    "scp": "scp";
    "sdiff": "sdiff" "gsdiff";
    "sed": "sed" "gsed";
    "seq": "seq" "gseq";
    "setsid": "setsid";
    "sftp": "sftp";
    "shred": "shred" "gshred";
    "shuf": "shuf" "gshuf";
    "size": "size" "gsize";
    "sleep": "sleep" "gsleep";
    "sort": "sort" "gsort";
    "split": "split" "gsplit";
    "sqlite3": "sqlite3" "sqlite" "sqlcipher";
    "ss": "ss";
    "ssh": "ssh" "slogin";
    "ssh-add": "ssh-add";
    "ssh-copy-id": "ssh-copy-id";
    "ssh-keygen": "ssh-keygen";
    "ssh-keyscan": "ssh-keyscan";
    "stat": "stat" "gstat";
    "stdbuf": "stdbuf" "gstdbuf";
    "strings": "strings" "gstrings";
    "strip": "strip" "gstrip" "llvm-strip" "x86_64-linux-gnu-strip";
    "sum": "sum" "gsum";
    "svn": "svn";
    "sync": "sync" "gsync";
    "sysctl": "sysctl";
    "tac": "tac" "gtac";
    "tail": "tail" "gtail";
    "tar": "tar" "gtar" "bsdtar";
    "taskset": "taskset";
    "tcpdump": "tcpdump";
    "tee": "tee" "gtee";
    "test": "test" "[" "gtest" "g[";
    "tex": "tex" "latex" "etex" "pdftex" "pdfetex" "pdflatex" "xetex" "xelatex" "xelatex-dev"
        "pdflatex-dev" "latex-dev" "lualatex-dev" "luatex" "luahbtex" "luajittex" "luajithbtex" "lualatex"
        "dviluatex" "dvilualatex" "ptex" "eptex" "uptex" "euptex" "platex" "uplatex" "amstex" "eplain"
        "mex" "pdfmex" "mptopdf" "jadetex" "pdfjadetex" "xmltex" "pdfxmltex" "mf" "mf-nowin" "mllatex"
        "cslatex" "pdfcslatex" "lollipop" "texsis" "aleph" "lamed" "omega" "lambda" "optex";
    "timeout": "timeout" "gtimeout";
    "touch": "touch" "gtouch";
    "tr": "tr" "gtr";
    "tracepath": "tracepath" "tracepath6";
    "traceroute": "traceroute" "traceroute6" "tcptraceroute" "lft" "traceroute.db" "traceroute6.db";
    "tree": "tree";
    "troff": "troff" "gtroff" "gnroff";
    "true": "true" "false" "gtrue" "gfalse";
    "truncate": "truncate" "gtruncate";
    "tsc": "tsc";
    "tshark": "tshark";
    "tsort": "tsort" "gtsort";
    "ul": "ul";
    "uname": "uname" "arch" "guname" "garch";
    "uniq": "uniq" "guniq";
    "units": "units";
    "unzip": "unzip" "zipinfo";
    "uptime": "uptime" "guptime";
    "uudecode": "uudecode";
    "uuencode": "uuencode";
    "w": "w";
    "wc": "wc" "gwc";
    "wget": "wget";
    "who": "who" "gwho";
    "whoami": "whoami" "logname" "hostid" "tty" "users" "groups" "gwhoami" "glogname" "ghostid" "gtty"
        "gusers" "ggroups";
    "whois": "whois";
    "wkhtmltopdf": "wkhtmltopdf" "wkhtmltoimage";
    "xargs": "xargs" "gxargs";
    "xgettext": "xgettext";
    "xmllint": "xmllint";
    "xorriso": "xorriso" "osirrox" "xorrecord";
    "xsltproc": "xsltproc";
    "xxd": "xxd";
    "xz": "xz" "unxz" "xzcat" "lzma" "unlzma" "lzcat";
    "yes": "yes" "gyes";
    "yq": "yq";
    "zdiff": "zdiff" "zcmp" "bzdiff" "bzcmp" "xzdiff" "xzcmp" "lzdiff" "lzcmp";
    "zgrep": "zgrep" "zegrep" "zfgrep" "bzgrep" "bzegrep" "bzfgrep" "xzgrep" "xzegrep" "xzfgrep" "lzgrep"
        "lzegrep" "lzfgrep" "zstdgrep";
    "zic": "zic";
    "zip": "zip" "zipcloak" "zipnote" "zipsplit";
    "zstd": "zstd" "zstdcat" "unzstd" "zstdmt" "pzstd";
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
