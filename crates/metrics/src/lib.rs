//! How servers describe what they count. Each crate has a list of [`Metric`]s: their names, kinds, labels and what they mean stand there
//! and nowhere else. What is served is registered by them, and `docs/METRICS.md` is written from them.
//!
//! What this crate is not: it serves nothing and keeps no values, but for [`Spread`], in which a pure core counts times until its shell
//! publishes them.

mod metric;
mod spread;
mod table;

pub use metric::{Kind, Label, Metric};
pub use spread::{BOUNDS, Spread};
pub use table::{Section, write_tables};
