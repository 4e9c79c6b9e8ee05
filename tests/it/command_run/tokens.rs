//! A batch costs a fraction of single calls; the bench `tokens` prints the same figures.

#[path = "../../../benches/common/tokens.rs"]
mod measure;

use crate::support::BINARY;

#[test]
fn ten_look_ups_as_one_batch_cost_about_a_third() {
    let figures = measure::measure(BINARY);
    assert_eq!(measure::LOOKUPS.len(), 10);
    for batch in [figures.argv, figures.lines] {
        let share = figures.percent(batch);
        assert!(share <= 35.0, "{share:.1} %: {figures:?}");
    }
    let [kit, _, alone] = figures.lists;
    assert!(kit <= 6 * 1024 && alone <= 3 * 1024, "{figures:?}");
}
