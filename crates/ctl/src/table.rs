//! Tables as text, for `show`.

use std::fmt::{self, Display};

const GAP: &str = "  ";

/// Rows under headings, in columns.
#[derive(Debug)]
pub(crate) struct Table {
    /// The headings, then the rows with as many cells.
    lines: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table without rows. Two spaces separate the headings in `headings`.
    pub(crate) fn new(headings: &str) -> Self {
        Self { lines: vec![headings.split(GAP).map(str::to_owned).collect()] }
    }

    /// Adds a row with a cell for each heading.
    pub(crate) fn row<const N: usize>(&mut self, cells: [&dyn Display; N]) {
        self.lines.push(cells.map(ToString::to_string).into());
    }

    /// Returns an empty line and the table, or an empty string if the table has no rows.
    pub(crate) fn section(&self) -> String {
        if self.lines.len() > 1 { format!("\n{self}") } else { String::new() }
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut widths = vec![0; self.lines[0].len()];
        for line in &self.lines {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = cell.chars().count().max(*width);
            }
        }
        for line in &self.lines {
            let cells: Vec<_> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            writeln!(f, "{}", cells.join(GAP).trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new("CLIENT  MESSAGES  WHY");
        assert_eq!(table.section(), "");
        table.row([&"alice", &7, &"it is at its owner"]);
        table.row([&"a-client-with-a-long-name", &1234, &"-"]);
        assert_eq!(
            table.section(),
            "\nCLIENT                     MESSAGES  WHY\n\
             alice                      7         it is at its owner\n\
             a-client-with-a-long-name  1234      -\n"
        );
    }
}
