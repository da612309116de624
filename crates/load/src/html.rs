//! A report as one HTML file that needs nothing else: figures, plots drawn as SVG, and the data behind each plot as a
//! table. Light or dark as the reader has it; lines differ in colours that everybody can tell apart, and in their dashes.

mod axis;
mod chart;
mod style;

use std::fmt::Write as _;

pub(crate) use chart::{Chart, Line, Point};

/// A moment to point out, in seconds from the begin of the run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mark {
    pub(crate) at: f64,
    pub(crate) text: String,
}

/// What stands in the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    pub(crate) title: String,
    /// What speaks against the servers or the measurement.
    pub(crate) failures: Vec<String>,
    /// The figures, as on the terminal.
    pub(crate) table: String,
    pub(crate) charts: Vec<Chart>,
    pub(crate) marks: Vec<Mark>,
}

impl Page {
    pub(crate) fn render(&self) -> String {
        let title = escape(&self.title);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{}</style>\n\
             </head>\n<body>\n<main>\n<h1>{title}</h1>\n",
            style::CSS
        );
        page.push_str(&self.verdict());
        // Writing to a String cannot fail.
        let _ = writeln!(page, "<pre>{}</pre>", escape(&self.table));
        if !self.marks.is_empty() {
            page.push_str("<ol class=\"marks\">\n");
            for Mark { at, text } in &self.marks {
                let _ = writeln!(page, "<li>{} <small>at {at:.1} s</small></li>", escape(text));
            }
            page.push_str("</ol>\n");
        }
        // All over the same time, so that a moment stands at the same place in each.
        let ends = self.charts.iter().filter_map(Chart::end).chain(self.marks.iter().map(|mark| mark.at));
        let end = ends.fold(0.0, f64::max);
        for chart in self.charts.iter().filter(|chart| chart.has_data()) {
            page.push_str(&chart.render(&self.marks, end));
        }
        page.push_str("</main>\n</body>\n</html>\n");
        page
    }

    fn verdict(&self) -> String {
        if self.failures.is_empty() {
            return "<p class=\"verdict good\">\u{2713} nothing speaks against it</p>\n".to_owned();
        }
        let items: String = self.failures.iter().map(|failure| format!("<li>{}</li>\n", escape(failure))).collect();
        format!("<div class=\"verdict bad\"><strong>\u{2717} failed</strong>\n<ul>\n{items}</ul></div>\n")
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let line = Line { name: "p99 <ms>".to_owned(), points: vec![(0.0, Some(1.0)), (1.0, None), (2.0, Some(3.0))] };
        Page {
            title: "mesh-load & co".to_owned(),
            table: "latency <1 ms".to_owned(),
            charts: vec![Chart::new("Latency", "ms", vec![line]), Chart::new("Nothing", "ms", vec![])],
            marks: vec![Mark { at: 1.5, text: "kill node-1".to_owned() }],
            ..Page::default()
        }
    }

    #[test]
    fn it_is_whole_and_loads_nothing() {
        let html = page().render();

        assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
        for foreign in ["http:", "https:", "src=", "href=", "@import", "url("] {
            assert!(!html.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn texts_cannot_break_out_of_their_place() {
        let html = page().render();

        assert!(
            html.contains("mesh-load &amp; co") && html.contains("latency &lt;1 ms") && html.contains("p99 &lt;ms&gt;")
        );
        assert!(!html.contains("<ms>"));
    }

    #[test]
    fn the_verdict_and_the_marks_are_words_and_not_colours_alone() {
        let mut page = page();
        assert!(page.render().contains("nothing speaks against it"));
        page.failures.push("3 messages lost".to_owned());

        let html = page.render();

        assert!(html.contains("<li>3 messages lost</li>"));
        assert!(html.contains("kill node-1 <small>at 1.5 s"));
    }

    #[test]
    fn a_chart_without_data_is_left_out() {
        let html = page().render();

        assert_eq!(html.matches("<svg").count(), 1);
        assert!(!html.contains("Nothing"));
    }
}
