//! Audit files: whatever their bytes are, the walk ends with a report or an error in words.

#![no_main]

use std::io::Write;

use cofferdam::audit::verify;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(data).expect("written");
    if let Err(problem) = verify::verify(&[file.path().to_path_buf()], None) {
        assert!(!problem.to_string().is_empty());
    }
});
