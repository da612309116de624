use std::fmt::Write as _;

/// Minimum width of a shortened column.
const NARROWEST: usize = 6;
const GAP: &str = "  ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// Rows under a heading, in columns.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates an empty table. A heading that ends in `#` is one of numbers, which are aligned
    /// right.
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        let column = |heading: &&'static str| match heading.strip_suffix('#') {
            Some(heading) => (heading, Align::Right),
            None => (*heading, Align::Left),
        };
        Self { columns: headings.iter().map(column).collect(), rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    /// Returns the text. With a `width`, shortens the widest columns until lines fit or all have
    /// their minimum width.
    pub(crate) fn render(&self, width: Option<usize>) -> String {
        let widest = |at: usize, heading: &str| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
            cells.chain([heading.len()]).max().unwrap_or(0)
        };
        let mut widths: Vec<_> =
            self.columns.iter().enumerate().map(|(at, (heading, _))| widest(at, heading)).collect();
        if let Some(width) = width {
            self.narrow(&mut widths, width);
        }
        let mut text = String::new();
        let headings: Vec<_> = self.columns.iter().map(|(heading, _)| (*heading).to_owned()).collect();
        for row in [&headings].into_iter().chain(&self.rows) {
            let mut line = String::new();
            for ((cell, width), (_, align)) in row.iter().zip(&widths).zip(&self.columns) {
                let (cell, width) = (cut(cell, *width), *width);
                let separator = if line.is_empty() { "" } else { GAP };
                // Writing to a string cannot fail.
                let _ = match align {
                    Align::Left => write!(line, "{separator}{cell:<width$}"),
                    Align::Right => write!(line, "{separator}{cell:>width$}"),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Narrows the widest text column, one character at a time, until a line fits.
    fn narrow(&self, widths: &mut [usize], width: usize) {
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        let whole: usize = widths.iter().sum::<usize>() + gaps;
        for _ in width..whole {
            let texts = widths.iter_mut().zip(&self.columns).filter(|(_, (_, align))| *align == Align::Left);
            match texts.map(|(width, _)| width).filter(|width| **width > NARROWEST).max() {
                Some(widest) => *widest -= 1,
                None => return,
            }
        }
    }
}

fn cut(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    cell.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Replaces characters that move the cursor or change the writing direction: clients choose the
/// content of rooms.
pub(crate) fn printable(text: &str) -> String {
    let is_unsafe = |char: char| char.is_control() || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|char| if is_unsafe(char) { '\u{fffd}' } else { char }).collect()
}

/// Returns the terminal's width, `None` if the output is no terminal. `COLUMNS` takes precedence.
pub(crate) fn terminal_width() -> Option<usize> {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = console::Term::stdout();
    told.or_else(|| terminal.size_checked().filter(|_| terminal.is_term()).map(|(_, columns)| columns.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["CLIENT", "MESSAGES#", "WHY"]);
        table.row(["alice".into(), "7".into(), "it is where it should be, by all that is known".into()]);
        table.row(["a-client-with-a-long-name".into(), "1234".into(), "-".into()]);
        table
    }

    #[test]
    fn numbers_stand_to_the_right_and_no_line_has_blanks_at_its_end() {
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
        let mut table = Table::new(&["DATA"]);
        table.row(["\u{1b}[2J\u{9b}1m\u{202e}x\r\n".into()]);
        let text = table.render(None);
        assert!(text.chars().all(|char| char == '\n' || !char.is_control()) && !text.contains('\u{202e}'), "{text:?}");
    }
}
