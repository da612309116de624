use std::collections::BTreeMap;

/// Adds counts by name to others.
pub(crate) fn add_counts(to: &mut BTreeMap<String, u64>, more: BTreeMap<String, u64>) {
    for (name, count) in more {
        *to.entry(name).or_default() += count;
    }
}
