//! A report as one HTML file that loads nothing: verdict, figures, and plots drawn by uPlot from the JSON report.

const TEMPLATE: &str = include_str!("report_page/page.html");
const UPLOT_JS: &str = include_str!("report_page/uPlot.iife.min.js");
const UPLOT_CSS: &str = include_str!("report_page/uPlot.min.css");

/// Renders a report. `json` is the report as `--json` writes it.
pub(crate) fn render(table: &str, failures: &[String], json: &str) -> String {
    // The report goes last: what it contains is not expanded again.
    TEMPLATE
        .replace("{{title}}", "mesh-load report")
        .replace("{{verdict}}", &verdict(failures))
        .replace("{{uplot_css}}", UPLOT_CSS)
        .replace("{{uplot_js}}", UPLOT_JS)
        .replace("{{table}}", &escape(table))
        .replace("{{report}}", &json.replace('<', "\\u003c"))
}

fn verdict(failures: &[String]) -> String {
    if failures.is_empty() {
        return "<p>passed</p>".to_owned();
    }
    let items: String = failures.iter().map(|failure| format!("<li>{}</li>\n", escape(failure))).collect();
    format!("<div class=\"failed\"><strong>failed</strong>\n<ul>\n{items}</ul></div>")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_loads_nothing_from_elsewhere() {
        let page = render("latency", &[], "{}");
        let own = page.replace(UPLOT_JS, "");
        for foreign in ["http:", "https:", "src=", "href=", "@import", "url("] {
            assert!(!own.contains(foreign), "{foreign}");
        }
        assert!(page.contains("<p>passed</p>"));
    }

    #[test]
    fn page_escapes_all_texts() {
        let page = render("p99 <1 ms", &["3 <lost>".to_owned()], r#"{"a":"</script><b>"}"#);
        assert!(page.contains("p99 &lt;1 ms") && page.contains("<li>3 &lt;lost&gt;</li>"));
        assert!(page.contains(r#"{"a":"\u003c/script>\u003cb>"}"#));
    }
}
