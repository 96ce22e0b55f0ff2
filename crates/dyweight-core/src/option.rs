//! Options in texts. The library calls them by their keys, in backquotes: `` `teacher-nfe` ``,
//! `` `teacher-nfe = 20` ``. Each front end writes what its user would type: `--teacher-nfe 20`, `teacher_nfe=20`.

use crate::error::{Error, Result, printable};

/// A key and its value, as texts have them.
pub fn with(key: &str, value: &str) -> String {
    format!("`{key} = {}`", printable(value).replace('`', "'"))
}

/// The text with every option as `write` has it.
pub fn written(text: &str, write: impl Fn(&str, Option<&str>) -> String) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, option)) = rest.split_once('`') {
        out += before;
        let inside = option.split_once('`').filter(|(inside, _)| is_option(inside));
        rest = match inside {
            Some((inside, after)) => {
                let (key, value) = inside.split_once(" = ").map_or((inside, None), |(key, value)| (key, Some(value)));
                out += &write(key, value);
                after
            }
            None => {
                out.push('`');
                option
            }
        };
    }
    out + rest
}

/// An error for the first option that is given where it is not to be.
pub fn refuse(given: &[(&'static str, bool)], refusal: impl FnOnce(&'static str) -> Error) -> Result<()> {
    given.iter().find(|(_, is_given)| *is_given).map_or(Ok(()), |(option, _)| Err(refusal(option)))
}

fn is_option(inside: &str) -> bool {
    let key = inside.split_once(" = ").map_or(inside, |(key, _)| key);
    key.starts_with(|c: char| c.is_ascii_lowercase())
        && key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_end_writes_options_its_own_way() {
        let flags = |text: &str| {
            written(text, |key, value| value.map_or(format!("<{key}>"), |value| format!("<{key}> {value}")))
        };
        assert_eq!(flags("use `nfe = 5`, or leave `teacher-nfe` out"), "use <nfe> 5, or leave <teacher-nfe> out");
        for text in ["no option", "a `b", "`A b` is none", "``", "`", ""] {
            assert_eq!(flags(text), text);
        }
        assert_eq!(flags("it`s `lr`"), "it`s <lr>");
        assert_eq!(flags(&Error::bad_value("lr", -1, "must be above 0").to_string()), "<lr> -1: must be above 0");
        assert_eq!(flags(&Error::bad_value("name", "a`b`c", "is none").to_string()), "<name> a'b'c: is none");
        let needs = Error::needs("huber-delta", "loss = huber").to_string();
        assert_eq!(flags(&needs), "<huber-delta> has no effect without <loss> huber");
    }
}
