//! Secrets that show by their form alone: a table an auditor reads in one sitting.
//!
//! Purpose: one line a format. `needles` are literals of which one must stand in the text before
//! the pattern is tried (and compiled), so that a plain command costs a few substring searches.
//! Patterns are ASCII (`(?-u)`): a Unicode `\w{60,}` breaks the size limit of the engine.

use std::borrow::Cow;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::AhoCorasick;
use regex::Regex;

use super::{Found, apply, at};

/// One recognisable kind of secret.
pub(super) struct Format {
    /// What the record shows: `[REDACTED:id]`.
    pub(super) id: &'static str,
    /// One of these must occur.
    pub(super) needles: &'static [&'static str],
    /// What is replaced.
    pub(super) pattern: &'static str,
}

const fn format(id: &'static str, needles: &'static [&'static str], pattern: &'static str) -> Format {
    Format { id, needles, pattern }
}

/// The formats. Order matters only where two fit the same text: the first wins.
pub(super) const FORMATS: &[Format] = &[
    // Everything to the end marker, or to the end of the text where that was cut off.
    format(
        "pem",
        &["PRIVATE KEY"],
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY[A-Z ]*-----.*?(?:-----END [A-Z ]*PRIVATE KEY[A-Z ]*-----|$)",
    ),
    // Header and payload are base64url of `{"`; the signature may be absent.
    format("jwt", &["eyJ"], r"(?-u)\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
    format("aws-key-id", &["AKIA", "ASIA", "ABIA", "ACCA"], r"(?-u)\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    format("github", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], r"(?-u)\bgh[pousr]_[A-Za-z0-9]{30,}"),
    format("github-pat", &["github_pat_"], r"(?-u)\bgithub_pat_[A-Za-z0-9_]{22,}"),
    // Personal, deploy, runner, trigger, feed, incoming-mail, agent, OAuth, CI job tokens.
    format(
        "gitlab",
        &["glpat-", "gldt-", "glrt-", "glptt-", "glft-", "glimt-", "glagent-", "gloas-", "glcbt-", "glsoat-"],
        r"(?-u)\bgl(?:pat|dt|rt|ptt|ft|imt|agent|oas|cbt|soat)-[A-Za-z0-9_=-]{20,}",
    ),
    format("anthropic", &["sk-ant-"], r"(?-u)\bsk-ant-[A-Za-z0-9_-]{20,}"),
    format("openai", &["sk-"], r"(?-u)\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{32,}"),
    format("slack", &["xox", "xapp-"], r"(?-u)\b(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}"),
    format(
        "slack-webhook",
        &["hooks.slack.com/"],
        r"(?-u)hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,}",
    ),
    format("google-api-key", &["AIza"], r"(?-u)\bAIza[A-Za-z0-9_-]{35}"),
    format("google-oauth", &["ya29."], r"(?-u)\bya29\.[A-Za-z0-9_-]{20,}"),
    format("google-client-secret", &["GOCSPX-"], r"(?-u)\bGOCSPX-[A-Za-z0-9_-]{20,}"),
    format("stripe", &["_live_", "_test_"], r"(?-u)\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}"),
    format("stripe-webhook", &["whsec_"], r"(?-u)\bwhsec_[A-Za-z0-9+/=]{24,}"),
    format("npm", &["npm_"], r"(?-u)\bnpm_[A-Za-z0-9]{36}"),
    format("pypi", &["pypi-AgE"], r"(?-u)\bpypi-AgE[A-Za-z0-9_-]{40,}"),
    format("crates-io", &["cio"], r"(?-u)\bcio[A-Za-z0-9]{32}\b"),
    format("rubygems", &["rubygems_"], r"(?-u)\brubygems_[a-f0-9]{48}"),
    format("huggingface", &["hf_", "api_org_"], r"(?-u)\b(?:hf|api_org)_[A-Za-z0-9]{30,}"),
    format("digitalocean", &["dop_v1_", "doo_v1_", "dor_v1_"], r"(?-u)\bdo[opr]_v1_[a-f0-9]{64}"),
    format("sendgrid", &["SG."], r"(?-u)\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    format("vault", &["hvs.", "hvb.", "hvr."], r"(?-u)\bhv[sbr]\.[A-Za-z0-9_-]{20,}"),
    format("databricks", &["dapi"], r"(?-u)\bdapi[a-f0-9]{32}(?:-\d)?\b"),
    format(
        "shopify",
        &["shpat_", "shpca_", "shppa_", "shpss_"],
        r"(?-u)\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    ),
    format("grafana", &["glsa_", "glc_"], r"(?-u)\b(?:glsa|glc)_[A-Za-z0-9_+/=-]{30,}"),
    format("atlassian", &["ATATT3"], r"(?-u)\bATATT3[A-Za-z0-9_=-]{40,}"),
    format("terraform-cloud", &[".atlasv1."], r"(?-u)\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}"),
    format("age", &["AGE-SECRET-KEY-1"], r"(?-u)AGE-SECRET-KEY-1[0-9A-Z]{40,}"),
    format("telegram", &[":AA"], r"(?-u)\b\d{8,10}:AA[A-Za-z0-9_-]{33}"),
    format("discord-webhook", &["/api/webhooks/"], r"(?-u)/api/webhooks/\d{15,}/[A-Za-z0-9_-]{40,}"),
    format("docker-pat", &["dckr_pat_"], r"(?-u)\bdckr_pat_[A-Za-z0-9_-]{20,}"),
    format("doppler", &["dp.pt."], r"(?-u)\bdp\.pt\.[A-Za-z0-9]{40,}"),
    format("linear", &["lin_api_"], r"(?-u)\blin_api_[A-Za-z0-9]{32,}"),
    format("postman", &["PMAK-"], r"(?-u)\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    format("newrelic", &["NRAK-"], r"(?-u)\bNRAK-[A-Z0-9]{27}"),
];

type Compiled = Result<Regex, regex::Error>;

static COMPILED: [OnceLock<Compiled>; FORMATS.len()] = [const { OnceLock::new() }; FORMATS.len()];

/// One search for all needles, and the format that each belongs to.
static NEEDLES: LazyLock<(Option<AhoCorasick>, Vec<usize>)> = LazyLock::new(|| {
    let needles =
        FORMATS.iter().enumerate().flat_map(|(of, format)| format.needles.iter().map(move |n| (of, *n)));
    let (of, texts): (Vec<usize>, Vec<&str>) = needles.unzip();
    (AhoCorasick::new(texts).ok(), of)
});

/// The formats of which a needle stands in `text`, as bits.
fn candidates(text: &str) -> u64 {
    let (search, of) = &*NEEDLES;
    let Some(search) = search else { return u64::MAX };
    let bit = |found: aho_corasick::Match| of.get(found.pattern().as_usize()).map_or(0, |format| 1 << format);
    search.find_overlapping_iter(text).map(bit).fold(0, |all, one| all | one)
}

fn compiled(of: usize) -> Option<(&'static Format, &'static Compiled)> {
    let (format, slot) = (FORMATS.get(of)?, COMPILED.get(of)?);
    Some((format, slot.get_or_init(|| Regex::new(format.pattern))))
}

fn each(bits: u64) -> impl Iterator<Item = (&'static Format, &'static Compiled)> {
    (0..FORMATS.len()).filter(move |of| bits & (1 << of) != 0).filter_map(compiled)
}

/// Replaces tokens that show by their form.
pub(super) fn tokens(out: &mut Cow<'_, str>, found: &mut Found) {
    if out.len() < 16 {
        return;
    }
    for (format, regex) in each(candidates(out)) {
        apply(out, regex.as_ref(), found, |parts, found| Some(found.note(format.id, at(parts, 0))));
    }
}

/// Whether `text` holds such a token.
pub(super) fn formats_of(text: &str) -> bool {
    each(candidates(text)).any(|(_, regex)| regex.as_ref().is_ok_and(|regex| regex.is_match(text)))
}

const _: () = assert!(FORMATS.len() <= 64, "a bit each");
