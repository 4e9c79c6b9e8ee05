//! The plain sections of a policy: workspace, environment, limits, sandbox.
//!
//! Each function reads one section, reports every fault to the reader and goes on. Called by
//! `load.rs` only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::nearest;
use super::load::Loader;
use super::read::{Reader, Section, Word};
use super::workspace::Workspace;
use super::{CgroupUse, Environment, Limits, Requirement, RunUser, SandboxConfig, Source};
use super::{hooks, keys, values};

/// The token that stands for the loader, its cache and the libraries each program links.
const LIBRARIES: &str = "@libraries";

pub(super) fn version<'t>(loader: &mut Loader<'t, '_>, root: &Section<'t>) {
    if root.get("version").is_some() {
        loader.reader.number(root, "version");
    } else if !root.is_written("version") {
        loader.reader.absent("version", "is required: write version = 1");
    }
}

pub(super) fn argument_rules(root: &Section<'_>) -> bool {
    Reader::text(root, "argument_rules").is_none_or(|word| word.text != "off")
}

/// `consent = "ask"`, wherever it stands.
pub(super) fn consent(section: &Section<'_>) -> bool {
    Reader::text(section, "consent").is_some()
}

pub(super) fn workspace<'t>(loader: &mut Loader<'t, '_>, root: &Section<'t>) -> Option<Workspace> {
    let section = loader.reader.subsection(root, "workspace");
    let write = Reader::flag(&section, "write");
    let repository_write = Reader::text(&section, "repository").is_some_and(|word| word.text == "write");
    let written = Reader::text(&section, "path");
    let key = section.key_of("path");
    let at = written.as_ref().map_or(section.at, |word| word.at);
    let absolute = written.as_ref().map(|word| values::absolute(&word.text));
    let path = match (&loader.options.workspace, absolute) {
        (_, Some(Err(what))) => {
            loader.reader.problem(at, &key, what);
            return None;
        }
        (Some(path), _) => path.clone(),
        (None, Some(Ok(path))) => path,
        (None, None) if loader.is_builtin() => PathBuf::from("."),
        (None, None) => {
            if !section.is_written("path") {
                loader.reader.absent(&key, "is required: an absolute path, or --workspace DIR");
            }
            return None;
        }
    };
    let opened = match Workspace::open(&path, write) {
        Ok(opened) => Workspace { repository_write, ..opened },
        Err(error) => {
            let what = format!("cannot open the workspace directory {}: {error}", path.display());
            loader.reader.problem(at, &key, what);
            return None;
        }
    };
    if opened.path == Path::new("/") {
        let what = "is the whole file system, policy and records included: name a directory below it";
        loader.reader.problem(at, &key, what);
        return None;
    }
    if let Source::File(policy) = loader.source
        && write
        && policy.starts_with(&opened.path)
    {
        let what =
            format!("would let commands rewrite this policy: move it out of {}", opened.path.display());
        loader.reader.problem(section.at, &section.key_of("write"), what);
    }
    Some(opened)
}

pub(super) fn environment<'t>(
    loader: &mut Loader<'t, '_>,
    root: &Section<'t>,
    workspace: Option<&Workspace>,
) -> Option<Environment> {
    let section = loader.reader.subsection(root, "environment");
    let path = search_path(loader, &section, workspace);
    let mut pass = Vec::new();
    for word in loader.reader.list(&section, "pass").unwrap_or_default() {
        if env_name(loader, &word, false) {
            pass.push(word.text);
        }
    }
    let mut set = BTreeMap::new();
    for (word, value) in Reader::map(&section, "set") {
        if env_name(loader, &word, false) && env_value(loader, &word, &value) {
            set.insert(word.text, value);
        }
    }
    path.map(|path| Environment { path, pass, set })
}

fn search_path<'t>(
    loader: &mut Loader<'t, '_>,
    section: &Section<'t>,
    workspace: Option<&Workspace>,
) -> Option<String> {
    let Some(word) = Reader::text(section, "path") else { return Some(keys::SAFE_PATH.to_owned()) };
    let directories = match values::search_path(&word.text) {
        Ok(directories) => directories,
        Err(what) => {
            loader.reader.problem(word.at, &word.key, what);
            return None;
        }
    };
    for directory in directories {
        if lies_in_writable(workspace, &directory) {
            let what = format!("{} lies in the writable workspace", directory.display());
            loader.reader.problem(word.at, &word.key, what);
        }
    }
    Some(word.text)
}

/// Checks the name of a variable; `preset`: one command's own.
pub(super) fn env_name(loader: &mut Loader<'_, '_>, word: &Word, preset: bool) -> bool {
    let name = &word.text;
    let what = if !hooks::is_env_name(name) {
        format!("\"{}\" is not a variable name (letters, digits and _)", name.escape_debug())
    } else if name == "PATH" {
        "PATH has its own key: environment.path".to_owned()
    } else if let Some(reason) = hooks::refused(name, preset) {
        format!("{name} is never passed or set here: it {reason}")
    } else {
        return true;
    };
    loader.reader.problem(word.at, &word.key, what);
    false
}

/// Checks the value of a variable.
pub(super) fn env_value(loader: &mut Loader<'_, '_>, word: &Word, value: &str) -> bool {
    if value.contains('\0') {
        loader.reader.problem(word.at, &word.key, "the value holds a NUL");
        return false;
    }
    true
}

pub(super) fn limits<'t>(loader: &mut Loader<'t, '_>, root: &Section<'t>) -> Limits {
    let section = loader.reader.subsection(root, "limits");
    let reader = &mut loader.reader;
    let mut number = |name: &str| reader.number(&section, name);
    // Every bound of the table fits usize on the 64-bit hosts that the kernel layer is made for.
    let mut count = |name: &str| usize::try_from(number(name)).unwrap_or(usize::MAX);
    let (output_bytes, output_lines) = (count("output_bytes"), count("output_lines"));
    let (arguments, argument_bytes) = (count("arguments"), count("argument_bytes"));
    let (stdin_bytes, jobs) = (count("stdin_bytes"), count("jobs"));
    let (max_jobs, max_finished_jobs) = (count("max_jobs"), count("max_finished_jobs"));
    let mut time = |name: &str| Duration::from_millis(number(name));
    let (timeout, max_timeout, cpu_time) = (time("timeout"), time("max_timeout"), time("cpu_time"));
    let (job_ttl, max_job_time, consent_time) = (time("job_ttl"), time("max_job_time"), time("consent_time"));
    let limits = Limits {
        timeout,
        max_timeout,
        output_bytes,
        output_lines,
        memory: number("memory"),
        processes: number("processes"),
        cpu_time,
        file_size: number("file_size"),
        open_files: number("open_files"),
        arguments,
        argument_bytes,
        stdin_bytes,
        jobs,
        cgroup: cgroup(loader, &section),
        // The default follows a small `jobs`; a number that was written is held against it below.
        max_jobs: max_jobs.min(jobs),
        max_finished_jobs,
        job_ttl,
        max_job_time,
        consent_time,
    };
    if let Some(item) = section.get("max_jobs").filter(|_| max_jobs > jobs) {
        let what = format!("max_jobs ({max_jobs}) exceeds jobs ({jobs})");
        loader.reader.problem(item.at, &section.key_of("max_jobs"), what);
    }
    if timeout > max_timeout {
        let show = |time| humantime::format_duration(time).to_string();
        let what = format!("timeout ({}) exceeds max_timeout ({})", show(timeout), show(max_timeout));
        let item = section.get("timeout").or_else(|| section.get("max_timeout"));
        let at = item.map_or(section.at, |item| item.at);
        loader.reader.problem(at, &section.key_of("timeout"), what);
    }
    if cpu_time.subsec_nanos() != 0 {
        let at = section.get("cpu_time").map_or(section.at, |item| item.at);
        loader.reader.problem(at, &section.key_of("cpu_time"), "takes whole seconds, as RLIMIT_CPU does");
    }
    limits
}

fn cgroup<'t>(loader: &mut Loader<'t, '_>, section: &Section<'t>) -> CgroupUse {
    let Some(word) = Reader::text(section, "cgroup") else { return CgroupUse::Auto };
    match word.text.as_str() {
        "auto" => CgroupUse::Auto,
        "off" => CgroupUse::Off,
        "require" => CgroupUse::Require,
        text => match values::absolute(text) {
            Ok(path) => CgroupUse::At(path),
            Err(what) => {
                let what = format!("{what}; or \"auto\", \"off\" or \"require\"");
                loader.reader.problem(word.at, &word.key, what);
                CgroupUse::Auto
            }
        },
    }
}

pub(super) fn sandbox<'t>(loader: &mut Loader<'t, '_>, root: &Section<'t>) -> SandboxConfig {
    let section = loader.reader.subsection(root, "sandbox");
    let words = loader.reader.list(&section, "read");
    let libraries = words.as_ref().is_none_or(|words| words.iter().any(|word| word.text == LIBRARIES));
    let mut read = Vec::new();
    for word in words.unwrap_or_default() {
        if word.text == LIBRARIES {
            continue;
        }
        if word.text.starts_with('@') {
            let what = format!("\"{}\" is not a token", word.text.escape_debug());
            let guess = nearest(&word.text, [LIBRARIES]);
            loader.reader.listed(word.at, &word.key, what, vec![LIBRARIES.into()], guess);
        } else if let Some(path) = existing(loader, &word) {
            read.push(path);
        }
    }
    SandboxConfig {
        read,
        libraries,
        network: network(loader, &section),
        require: require(loader, &section),
        user: user(loader, &section),
    }
}

/// An absolute path that exists. What the built-in policy names is skipped when this host lacks it.
pub(super) fn existing(loader: &mut Loader<'_, '_>, word: &Word) -> Option<PathBuf> {
    let found = values::absolute(&word.text).and_then(|path| match path.metadata() {
        Ok(_) => Ok(Some(path)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot look at {}: {error}", word.text)),
    });
    match found {
        Ok(Some(path)) => return Some(path),
        Ok(None) if loader.is_builtin() => {
            loader.missing.push(format!("{}: {} is not there; nothing to do", word.key, word.text));
        }
        Ok(None) => {
            let what = format!("\"{}\" does not exist", word.text.escape_debug());
            loader.reader.problem(word.at, &word.key, what);
        }
        Err(what) => loader.reader.problem(word.at, &word.key, what),
    }
    None
}

pub(super) fn network<'t>(loader: &mut Loader<'t, '_>, section: &Section<'t>) -> Vec<u16> {
    let words = match Reader::text(section, "network") {
        Some(word) if word.text == "none" => return Vec::new(),
        Some(word) => vec![word],
        None => loader.reader.list(section, "network").unwrap_or_default(),
    };
    let mut ports = Vec::new();
    for word in words {
        match values::port(&word.text) {
            Ok(port) => ports.push(port),
            Err(what) => loader.reader.problem(word.at, &word.key, what),
        }
    }
    ports
}

fn require<'t>(loader: &mut Loader<'t, '_>, section: &Section<'t>) -> Vec<Requirement> {
    let Some(words) = loader.reader.list(section, "require") else {
        let all = [Requirement::Landlock(6), Requirement::Seccomp];
        return all.into_iter().chain([Requirement::CapsEmpty, Requirement::NoNewPrivs]).collect();
    };
    let mut found = Vec::new();
    for word in words {
        match word.text.parse() {
            Ok(requirement) => found.push(requirement),
            Err(what) => {
                let valid = values::requirements().map(str::to_owned).collect();
                let guess = nearest(&word.text, values::requirements());
                loader.reader.listed(word.at, &word.key, what, valid, guess);
            }
        }
    }
    found
}

fn user<'t>(loader: &mut Loader<'t, '_>, section: &Section<'t>) -> RunUser {
    let Some(word) = Reader::text(section, "user") else { return RunUser::Auto };
    values::run_user(&word.text).unwrap_or_else(|what| {
        loader.reader.problem(word.at, &word.key, what);
        RunUser::Auto
    })
}

/// Where a file is, or would be once it is created: links of the part that exists are followed.
pub(super) fn settled(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (ancestor.canonicalize(), path.strip_prefix(ancestor)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_path_buf()
}

/// Whether a path lies below a workspace that commands may write.
pub(super) fn lies_in_writable(workspace: Option<&Workspace>, path: &Path) -> bool {
    workspace.is_some_and(|workspace| workspace.write && settled(path).starts_with(&workspace.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_yet_settles_behind_links() {
        let keep = tempfile::tempdir().unwrap();
        let base = keep.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("real")).unwrap();
        std::os::unix::fs::symlink(base.join("real"), base.join("link")).unwrap();
        assert_eq!(settled(&base.join("link/a/b")), base.join("real/a/b"));
        assert_eq!(settled(&base.join("link")), base.join("real"));
    }
}
