//! Lists sorted by the bytes of names, one page at a time, for the operator routes of a node.
//! Each node returns its first names after the cursor, sorted. The page is the first names of the
//! merged lists. It is complete for names that do not move: a name among the first N of all nodes
//! is among the first N of its node.

use std::collections::BinaryHeap;

use serde::Deserialize;
use signaling_protocol::ClientId;

const DEFAULT_LIMIT: usize = 100;
/// Maximum names on a page of clients.
pub const MAX_NAMES: usize = 1_000;

/// A page as requested in a query string, not yet validated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// Only names after this one; `None` or empty: from the first.
    pub after: Option<String>,
    /// Maximum number of names; `None`: the smaller of 100 and the maximum.
    pub limit: Option<usize>,
    /// Only names with this prefix; `None` or empty: all.
    pub prefix: Option<String>,
    /// `true` to ask this node alone.
    #[serde(default)]
    pub here: bool,
}

/// A validated selection of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    after: Option<String>,
    limit: usize,
    prefix: String,
}

impl PageQuery {
    /// Validates the query. A page has at most `max` names.
    ///
    /// # Errors
    /// If `limit` is not 1 to `max`, or `after` or `prefix` is no valid name: 1 to 128 bytes of
    /// `A-Z a-z 0-9 . _ ~ : @ -`. The text names the parameter.
    pub fn check(self, max: usize) -> Result<Page, String> {
        let Self { after, limit, prefix, .. } = self;
        let limit = limit.unwrap_or(DEFAULT_LIMIT.min(max));
        if !(1..=max).contains(&limit) {
            return Err(format!("limit is {limit}: it must be 1 to {max}"));
        }
        let after = after.filter(|after| !after.is_empty());
        let prefix = prefix.filter(|prefix| !prefix.is_empty());
        for (name, value) in [("after", &after), ("prefix", &prefix)] {
            if let Some(Err(error)) = value.as_deref().map(ClientId::new) {
                return Err(format!("{name}: {error}"));
            }
        }
        Ok(Page { after, limit, prefix: prefix.unwrap_or_default() })
    }
}

impl Page {
    /// Returns the cursor: only names after it are selected. `None`: from the first name.
    pub fn after(&self) -> Option<&str> {
        self.after.as_deref()
    }

    /// Returns the query, without `?`, for another node's own names. Names need no escapes.
    pub fn query(&self) -> String {
        let mut query = format!("here=true&limit={}", self.limit);
        if let Some(after) = &self.after {
            query.push_str("&after=");
            query.push_str(after);
        }
        if !self.prefix.is_empty() {
            query.push_str("&prefix=");
            query.push_str(&self.prefix);
        }
        query
    }

    fn selects(&self, name: &str) -> bool {
        self.after.as_deref().is_none_or(|after| name > after) && name.starts_with(&self.prefix)
    }

    /// Returns the selected names, sorted, and `true` if there are more. `names` are unique, in any
    /// order. Keeps at most one page in memory.
    pub fn pick<'a>(&self, names: impl Iterator<Item = &'a str>) -> (Vec<&'a str>, bool) {
        let mut first = BinaryHeap::with_capacity(self.limit + 2);
        for name in names.filter(|name| self.selects(name)) {
            if first.len() <= self.limit {
                first.push(name);
            } else if first.peek().is_some_and(|last| name < *last) {
                first.pop();
                first.push(name);
            }
        }
        let mut picked = first.into_sorted_vec();
        let more = picked.len() > self.limit;
        picked.truncate(self.limit);
        (picked, more)
    }

    /// Cuts rows of all nodes to one page, sorted, with the first row of each name. Returns the
    /// cursor of the next page. `more` is `true` if a node has further rows.
    pub(crate) fn cut<T>(&self, rows: &mut Vec<T>, more: bool, name: impl Fn(&T) -> &str) -> Option<String> {
        rows.sort_by(|a, b| name(a).cmp(name(b)));
        rows.dedup_by(|later, earlier| name(later) == name(earlier));
        let more = more || rows.len() > self.limit;
        rows.truncate(self.limit);
        rows.last().filter(|_| more).map(|row| name(row).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(after: Option<&str>, limit: Option<usize>, prefix: Option<&str>) -> PageQuery {
        PageQuery { after: after.map(Into::into), limit, prefix: prefix.map(Into::into), here: false }
    }

    #[test]
    fn bad_page_query_is_refused_with_its_parameter() {
        for (bad, part) in [
            (query(None, Some(0), None), "limit"),
            (query(None, Some(MAX_NAMES + 1), None), "limit"),
            (query(Some("a b"), None, None), "after"),
            (query(None, None, Some("ä")), "prefix"),
            (query(None, None, Some(&"a".repeat(129))), "prefix"),
        ] {
            assert!(bad.check(MAX_NAMES).unwrap_err().starts_with(part));
        }
        let page = query(Some("alice"), Some(7), Some("a")).check(MAX_NAMES).unwrap();
        assert_eq!(page.query(), "here=true&limit=7&after=alice&prefix=a");
        let first = query(None, Some(DEFAULT_LIMIT), None).check(MAX_NAMES).unwrap();
        assert_eq!(query(Some(""), None, Some("")).check(MAX_NAMES).unwrap(), first);
    }

    #[test]
    fn page_is_sorted_and_starts_after_the_cursor() {
        let names = ["d", "b", "a", "bb", "c"];
        let pick =
            |after, limit, prefix| query(after, Some(limit), prefix).check(MAX_NAMES).unwrap().pick(names.into_iter());
        assert_eq!(pick(None, 3, None), (vec!["a", "b", "bb"], true));
        assert_eq!(pick(Some("bb"), 3, None), (vec!["c", "d"], false));
        assert_eq!(pick(None, 2, Some("b")), (vec!["b", "bb"], false));
        assert_eq!(pick(Some("z"), 2, None), (vec![], false));
    }
}
