use std::fmt::Write as _;

use super::axis::{Axis, short};
use super::style::SORTS;
use super::{Mark, escape};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 58.0;
/// For the names of the lines.
const RIGHT: f64 = 120.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 26.0;
/// Between the names of two lines.
const NAME_HEIGHT: f64 = 14.0;

/// Values over time, or over an amount of something.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    title: String,
    unit: &'static str,
    across: Across,
    lines: Vec<Line>,
    is_log: bool,
}

/// What the values of a chart follow.
#[derive(Clone, Copy, Debug)]
enum Across {
    Time,
    /// Of what, and whether by powers of ten.
    Amount(&'static str, bool),
}

/// Seconds from the begin of the run, or the amount, and the value there, where there is one.
pub(crate) type Point = (f64, Option<f64>);

/// One line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<Point>,
}

impl Chart {
    pub(crate) fn new(title: &str, unit: &'static str, lines: Vec<Line>) -> Self {
        Self { title: title.to_owned(), unit, across: Across::Time, lines, is_log: false }
    }

    /// Its values by powers of ten, for what spreads widely.
    pub(crate) fn logarithmic(self) -> Self {
        Self { is_log: true, ..self }
    }

    /// Over an amount of `what`, not over time.
    pub(crate) fn over(self, what: &'static str) -> Self {
        Self { across: Across::Amount(what, false), ..self }
    }

    /// The same by powers of ten.
    pub(crate) fn over_powers_of(self, what: &'static str) -> Self {
        Self { across: Across::Amount(what, true), ..self }
    }

    pub(super) fn has_data(&self) -> bool {
        self.values().next().is_some()
    }

    /// When its last value is, if it is over time.
    pub(super) fn end(&self) -> Option<f64> {
        self.moments().last().copied().filter(|_| matches!(self.across, Across::Time))
    }

    /// Drawn from the begin of the run to its end, if it is over time.
    pub(super) fn render(&self, marks: &[Mark], end: f64) -> String {
        let frame = Frame::around(self, end);
        let mut svg = format!(
            "<h2>{} <small>{}</small></h2>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
            escape(&self.title),
            escape(self.unit),
            escape(&self.title)
        );
        frame.write_grid(&mut svg);
        let marks = if matches!(self.across, Across::Time) { marks } else { &[] };
        for (number, mark) in marks.iter().enumerate() {
            frame.write_mark(&mut svg, number + 1, mark.at);
        }
        for (number, line) in self.lines.iter().enumerate() {
            let (path, sort) = (frame.path(line), number % SORTS);
            // Writing to a String cannot fail.
            let _ = writeln!(svg, "<path class=\"line c{sort}\" d=\"{path}\"/>");
        }
        self.write_names(&mut svg, &frame);
        self.write_hints(&mut svg, &frame);
        svg.push_str("</svg>\n");
        self.write_table(&mut svg);
        svg
    }

    fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.lines.iter().flat_map(|line| line.points.iter().filter_map(|(_, value)| *value))
    }

    /// The name of each line stands at its end beside a piece of it, moved down where that of another one is.
    fn write_names(&self, svg: &mut String, frame: &Frame) {
        let end = |line: &Line| line.points.iter().rev().find_map(|(_, value)| *value);
        let ends = self.lines.iter().enumerate();
        let mut names: Vec<_> = ends.filter_map(|(number, line)| Some((frame.y(end(line)?), number))).collect();
        names.sort_by(|one, other| one.0.total_cmp(&other.0));
        let lowest = HEIGHT - BOTTOM - NAME_HEIGHT * names.len().saturating_sub(1) as f64;
        let mut free = TOP - 8.0;
        for (place, (y, number)) in names.into_iter().enumerate() {
            let y = y.min(lowest + NAME_HEIGHT * place as f64).max(free);
            free = y + NAME_HEIGHT;
            let (x, name, sort) = (WIDTH - RIGHT + 6.0, escape(&self.lines[number].name), number % SORTS);
            // Writing to a String cannot fail.
            let _ = writeln!(svg, "<path class=\"line c{sort}\" d=\"M{x} {y:.1}h22\"/>");
            let (x, y) = (x + 27.0, y + 4.0);
            let _ = writeln!(svg, "<text class=\"t{sort}\" x=\"{x}\" y=\"{y:.1}\">{name}</text>");
        }
    }

    /// What a reader's pointer shows: all values of a moment.
    fn write_hints(&self, svg: &mut String, frame: &Frame) {
        let moments = self.moments();
        let width = (WIDTH - LEFT - RIGHT) / moments.len().max(1) as f64;
        for at in moments {
            let mut hint = format!("{} {}", short(at), self.across.unit());
            for line in &self.lines {
                if let Some(value) = line.at(at) {
                    let _ = write!(hint, "\n{}: {} {}", line.name, short(value), self.unit);
                }
            }
            let (x, height) = (frame.x(at) - width / 2.0, HEIGHT - TOP - BOTTOM);
            // Writing to a String cannot fail.
            let _ = writeln!(
                svg,
                "<rect class=\"hit\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{height}\"><title>{}</title></rect>",
                escape(&hint)
            );
        }
    }

    fn write_table(&self, html: &mut String) {
        let names: String = self.lines.iter().map(|line| format!("<th>{}</th>", escape(&line.name))).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(
            html,
            "<details><summary>as a table</summary>\n<table>\n<tr><th>{}</th>{names}</tr>",
            escape(self.across.unit())
        );
        for at in self.moments() {
            let cell = |line: &Line| format!("<td>{}</td>", line.at(at).map_or_else(String::new, short));
            let cells: String = self.lines.iter().map(cell).collect();
            let _ = writeln!(html, "<tr><td>{}</td>{cells}</tr>", short(at));
        }
        html.push_str("</table>\n</details>\n");
    }

    fn moments(&self) -> Vec<f64> {
        let mut moments: Vec<f64> = self.lines.iter().flat_map(|line| line.points.iter().map(|(at, _)| *at)).collect();
        moments.sort_by(f64::total_cmp);
        moments.dedup();
        moments
    }
}

impl Across {
    fn unit(self) -> &'static str {
        match self {
            Self::Time => "s",
            Self::Amount(what, _) => what,
        }
    }
}

impl Line {
    fn at(&self, moment: f64) -> Option<f64> {
        self.points.iter().find(|(at, _)| at.total_cmp(&moment).is_eq())?.1
    }
}

/// Where things stand in the picture.
struct Frame {
    kind: Across,
    across: Axis,
    values: Axis,
}

impl Frame {
    fn around(chart: &Chart, end: f64) -> Self {
        let most = chart.values().fold(0.0, f64::max);
        let least = chart.values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let values =
            if chart.is_log && least.is_finite() { Axis::logarithmic(least, most) } else { Axis::linear(most) };
        let places = chart.moments();
        let (first, last) = (places.first().copied().unwrap_or(0.0), places.last().copied().unwrap_or(0.0));
        let across = match chart.across {
            Across::Time => Axis::time(end),
            Across::Amount(_, true) if first > 0.0 => Axis::logarithmic(first, last),
            Across::Amount(..) => Axis::linear(last),
        };
        Self { kind: chart.across, across, values }
    }

    fn x(&self, at: f64) -> f64 {
        LEFT + self.across.place(at) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.values.place(value) * (HEIGHT - TOP - BOTTOM)
    }

    fn write_grid(&self, svg: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        // Writing to a String cannot fail.
        for value in &self.values.ticks {
            let (y, text) = (self.y(*value), short(*value));
            let _ = writeln!(svg, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
            let (x, y) = (LEFT - 6.0, y + 4.0);
            let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{text}</text>");
        }
        for at in &self.across.ticks {
            let (x, y, text) = (self.x(*at), bottom + 17.0, short(*at));
            let unit = if matches!(self.kind, Across::Time) { " s" } else { "" };
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{text}{unit}</text>");
        }
        if let Across::Amount(what, _) = self.kind {
            let (x, y, what) = (right + 24.0, bottom + 17.0, escape(what));
            let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\">{what}</text>");
        }
    }

    fn write_mark(&self, svg: &mut String, number: usize, at: f64) {
        let (x, bottom) = (self.x(at), HEIGHT - BOTTOM);
        // Writing to a String cannot fail.
        let _ = writeln!(svg, "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>");
        let y = TOP - 6.0;
        let _ = writeln!(svg, "<text class=\"on\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{number}</text>");
    }

    /// A line with a gap wherever there is no value; a value that stands alone is a dot.
    fn path(&self, line: &Line) -> String {
        let mut path = String::new();
        for part in line.points.split(|(_, value)| value.is_none()) {
            for (number, (at, value)) in part.iter().enumerate() {
                let (step, x, y) = (if number == 0 { 'M' } else { 'L' }, self.x(*at), self.y(value.unwrap_or(0.0)));
                // Writing to a String cannot fail.
                let _ = write!(path, "{step}{x:.1} {y:.1}");
            }
            if part.len() == 1 {
                path.push_str("h2");
            }
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, points: &[(f64, Option<f64>)]) -> Line {
        Line { name: name.to_owned(), points: points.to_vec() }
    }

    #[test]
    fn a_gap_in_the_values_is_a_gap_in_the_line() {
        let points = [(0.0, Some(1.0)), (1.0, Some(2.0)), (2.0, None), (3.0, Some(1.0))];
        let chart = Chart::new("t", "ms", vec![line("a", &points)]);

        let path = Frame::around(&chart, 3.0).path(&chart.lines[0]);

        assert_eq!((path.matches('M').count(), path.matches('L').count(), path.matches('h').count()), (2, 1, 1));
    }

    #[test]
    fn names_at_the_ends_of_lines_do_not_lie_on_each_other() {
        let lines = ["a", "b", "c"].map(|name| line(name, &[(0.0, Some(5.0)), (1.0, Some(5.0))]));
        let svg = Chart::new("t", "ms", lines.to_vec()).render(&[], 1.0);

        let names = svg.lines().filter(|line| line.starts_with("<text class=\"t"));
        let heights: Vec<f64> =
            names.filter_map(|line| line.split_once(" y=\"")?.1.split_once('"')?.0.parse().ok()).collect();

        assert_eq!(heights.len(), 3);
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= NAME_HEIGHT - 0.2), "{heights:?}");
        assert!(heights.iter().all(|y| *y < HEIGHT));
    }

    #[test]
    fn all_values_of_a_moment_are_told_and_stand_in_the_table() {
        let lines = vec![line("p50", &[(1.0, Some(2.5))]), line("p99", &[(1.0, Some(40.0))])];

        let svg = Chart::new("t", "ms", lines).render(&[], 1.0);

        assert!(svg.contains("<title>1 s\np50: 2.5 ms\np99: 40 ms</title>"), "{svg}");
        assert!(svg.contains("<tr><td>1</td><td>2.5</td><td>40</td></tr>"), "{svg}");
    }

    #[test]
    fn what_is_over_an_amount_says_so_and_has_no_marks() {
        let points = [(100.0, Some(1.0)), (1_000.0, Some(2.0)), (10_000.0, Some(3.0))];
        let chart = Chart::new("t", "us", vec![line("a", &points)]).over_powers_of("clients");
        let frame = Frame::around(&chart, 5.0);

        let svg = chart.render(&[Mark { at: 3.0, text: "kill".to_owned() }], 5.0);

        assert!((frame.x(1_000.0) - frame.x(100.0) - (frame.x(10_000.0) - frame.x(1_000.0))).abs() < 0.1);
        assert_eq!(chart.end(), None);
        assert!(
            svg.contains(">100</text>") && svg.contains(">clients</text>") && svg.contains("<th>clients</th>"),
            "{svg}"
        );
        assert!(svg.contains("<title>100 clients\na: 1 us</title>") && !svg.contains("class=\"mark\""), "{svg}");
    }

    #[test]
    fn a_mark_stands_where_its_moment_is() {
        let chart = Chart::new("t", "ms", vec![line("a", &[(0.0, Some(1.0)), (10.0, Some(1.0))])]);
        let x = Frame::around(&chart, 10.0).x(5.0);

        let svg = chart.render(&[Mark { at: 5.0, text: "kill".to_owned() }], 10.0);

        assert!(svg.contains(&format!("<line class=\"mark\" x1=\"{x:.1}\"")), "{svg}");
    }
}
