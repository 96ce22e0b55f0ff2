//! Colours, where there is a terminal that has them and nobody has said no (<https://no-color.org>).

use std::ffi::OsString;
use std::io::IsTerminal;

/// How a text looks: the codes of a terminal.
pub type Style = &'static str;

/// As it is.
pub const PLAIN: Style = "";
/// Heavy.
pub const BOLD: Style = "1";
/// What went wrong.
pub const RED: Style = "1;31";
/// What may go wrong.
pub const YELLOW: Style = "1;33";
/// What to try.
pub const CYAN: Style = "1;36";

/// The text for standard error.
pub fn on_stderr(text: &str, style: Style) -> String {
    painted(text, style, std::io::stderr().is_terminal())
}

/// The text for standard output.
pub fn on_stdout(text: &str, style: Style) -> String {
    painted(text, style, std::io::stdout().is_terminal())
}

fn painted(text: &str, style: Style, is_terminal: bool) -> String {
    let is_wanted = is_terminal && has_colours(std::env::var_os("TERM"), std::env::var_os("NO_COLOR"));
    if is_wanted && !style.is_empty() { format!("\x1b[{style}m{text}\x1b[0m") } else { text.into() }
}

/// Whether a terminal of that name has colours, and may use them.
fn has_colours(term: Option<OsString>, no_color: Option<OsString>) -> bool {
    let is_dumb = term.is_none_or(|term| term == "dumb");
    !is_dumb && no_color.is_none_or(|value| value.is_empty())
}

/// The same for the help.
pub fn of_help() -> clap::builder::Styles {
    use clap::builder::styling::{AnsiColor, Styles};
    Styles::styled()
        .header(AnsiColor::Yellow.on_default().bold())
        .usage(AnsiColor::Yellow.on_default().bold())
        .literal(AnsiColor::Green.on_default())
        .placeholder(AnsiColor::Cyan.on_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_need_a_terminal_that_has_them_and_nobody_who_minds() {
        let asked =
            |term: Option<&str>, no_color: Option<&str>| has_colours(term.map(Into::into), no_color.map(Into::into));
        assert!(asked(Some("xterm"), None) && asked(Some("tmux-256color"), Some("")));
        assert!(!asked(Some("xterm"), Some("1")) && !asked(Some("dumb"), None) && !asked(None, None));
        assert_eq!(painted("error:", RED, false), "error:");
    }
}
