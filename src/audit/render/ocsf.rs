//! The rendering for OCSF consumers, such as Amazon Security Lake: `siem/mapping/ocsf.toml`, compiled in.

use std::sync::OnceLock;

use super::RenderError;
use super::mapping::Mapping;

const TEXT: &str = include_str!("../../../siem/mapping/ocsf.toml");

pub(super) fn mapping() -> Result<&'static Mapping, RenderError> {
    static MAPPING: OnceLock<Result<Mapping, String>> = OnceLock::new();
    let mapping = MAPPING.get_or_init(|| Mapping::parse(TEXT));
    mapping.as_ref().map_err(|error| RenderError::Mapping("siem/mapping/ocsf.toml", error.clone()))
}
