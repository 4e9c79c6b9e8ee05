//! The rendering for Elastic: `siem/mapping/ecs.toml`, compiled in.

use std::sync::OnceLock;

use super::RenderError;
use super::mapping::Mapping;

const TEXT: &str = include_str!("../../../siem/mapping/ecs.toml");

pub(super) fn mapping() -> Result<&'static Mapping, RenderError> {
    static MAPPING: OnceLock<Result<Mapping, String>> = OnceLock::new();
    let mapping = MAPPING.get_or_init(|| Mapping::parse(TEXT));
    mapping.as_ref().map_err(|error| RenderError::Mapping("siem/mapping/ecs.toml", error.clone()))
}
