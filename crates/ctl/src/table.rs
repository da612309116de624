//! Tables as text, for `show`: columns that fit the terminal.

use std::fmt::Display;

use console::{Alignment, measure_text_width, pad_str};

/// Minimum width of a shortened column.
const MIN_WIDTH: usize = 6;
const GAP: &str = "  ";

/// Rows under a heading, in columns.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Alignment>,
    /// The headings, then the rows.
    lines: Vec<Vec<String>>,
}

impl Table {
    /// Creates an empty table. Two spaces separate `headings`. A heading that ends in `#` is one of
    /// numbers, which are aligned right.
    pub(crate) fn new(headings: &str) -> Self {
        let align = |heading: &str| if heading.ends_with('#') { Alignment::Right } else { Alignment::Left };
        let first = headings.split(GAP).map(|heading| heading.trim_end_matches('#').to_owned()).collect();
        Self { columns: headings.split(GAP).map(align).collect(), lines: vec![first] }
    }

    /// Adds a row with a cell for each heading. Unsafe characters are replaced.
    pub(crate) fn row<const N: usize>(&mut self, cells: [&dyn Display; N]) {
        self.lines.push(cells.map(|cell| printable(&cell.to_string())).into());
    }

    /// Returns an empty line and the text, or an empty string if the table has no rows. `width` is
    /// as in [`render`](Self::render).
    pub(crate) fn section(&self, width: Option<usize>) -> String {
        if self.lines.len() > 1 { format!("\n{}", self.render(width)) } else { String::new() }
    }

    /// Returns the headings and rows as lines. With a `width` in columns, shortens the widest text
    /// columns until lines fit or all have 6 columns. `None`: no limit.
    pub(crate) fn render(&self, width: Option<usize>) -> String {
        let widest = |at: usize| {
            let cells = self.lines.iter().filter_map(|line| line.get(at));
            cells.map(|cell| measure_text_width(cell)).max().unwrap_or(0)
        };
        let mut widths: Vec<_> = (0..self.columns.len()).map(widest).collect();
        if let Some(width) = width {
            self.narrow(&mut widths, width);
        }
        let mut text = String::new();
        for line in &self.lines {
            let cells = line.iter().zip(&widths).zip(&self.columns);
            let cells = cells.map(|((cell, width), align)| pad_str(cell, *width, *align, Some("…")));
            text.push_str(cells.collect::<Vec<_>>().join(GAP).trim_end());
            text.push('\n');
        }
        text
    }

    /// Narrows the widest text column, one character at a time, until a line fits.
    fn narrow(&self, widths: &mut [usize], width: usize) {
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        let whole: usize = widths.iter().sum::<usize>() + gaps;
        for _ in width..whole {
            let texts = widths.iter_mut().zip(&self.columns).filter(|(_, align)| **align == Alignment::Left);
            match texts.map(|(width, _)| width).filter(|width| **width > MIN_WIDTH).max() {
                Some(widest) => *widest -= 1,
                None => return,
            }
        }
    }
}

/// Replaces characters that move the cursor or change the writing direction by U+FFFD: clients
/// choose the content of rooms.
pub(crate) fn printable(text: &str) -> String {
    let is_unsafe = |char: char| char.is_control() || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.replace(is_unsafe, "\u{fffd}")
}

/// Returns the columns of the terminal, or the variable `COLUMNS`; `None` if neither is known.
pub(crate) fn terminal_width() -> Option<usize> {
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = console::Term::stdout();
    set.or_else(|| terminal.size_checked().filter(|_| terminal.is_term()).map(|(_, columns)| columns.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("CLIENT  MESSAGES#  WHY");
        table.row([&"alice", &7, &"it is where it should be, by all that is known"]);
        table.row([&"a-client-with-a-long-name", &1234, &"-"]);
        table
    }

    #[test]
    fn numbers_are_aligned_right_without_trailing_blanks() {
        assert_eq!(
            table().render(None),
            "CLIENT                     MESSAGES  WHY\n\
             alice                             7  it is where it should be, by all that is known\n\
             a-client-with-a-long-name      1234  -\n"
        );
    }

    #[test]
    fn narrow_terminal_cuts_the_widest_texts_and_no_number() {
        let text = table().render(Some(50));
        assert!(text.lines().all(|line| line.chars().count() <= 50), "{text}");
        assert!(text.contains('…') && text.contains("1234"), "{text}");
        assert!(table().render(Some(5)).contains("1234"), "it does not get narrower than it can");
    }

    #[test]
    fn control_characters_are_not_printed() {
        let mut table = Table::new("DATA");
        table.row([&"\u{1b}[2J\u{9b}1m\u{202e}x\r\n"]);
        let text = table.render(None);
        assert!(text.chars().all(|char| char == '\n' || !char.is_control()) && !text.contains('\u{202e}'), "{text:?}");
    }
}
