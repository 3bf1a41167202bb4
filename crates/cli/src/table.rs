//! Text in columns, and ages. Pure.

use jiff::Timestamp;

/// Rows under upper-case headings, columns as wide as they need to be.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = headings.iter().map(|it| it.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let headings = headings.iter().map(|it| (*it).to_owned()).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        format!("{}\n", cells.join("   ").trim_end())
    };
    let lines: Vec<String> = std::iter::once(&headings).chain(rows).map(line).collect();
    lines.concat()
}

/// A name and a value a line, values below each other.
pub(crate) fn fields(fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| {
        let name = format!("{name}:");
        format!("{name:<0$} {value}\n", width + 1)
    };
    fields.iter().map(line).collect::<Vec<_>>().concat()
}

/// How long ago something was, in the largest unit that says enough.
pub(crate) fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    let Some(since) = since else {
        return "-".to_owned();
    };
    let seconds = now.duration_since(since).as_secs().max(0);
    let (minute, hour, day) = (60, 3600, 86400);
    match seconds {
        _ if seconds < 2 * minute => format!("{seconds}s"),
        _ if seconds < 2 * hour => format!("{}m", seconds / minute),
        _ if seconds < 2 * day => format!("{}h", seconds / hour),
        _ => format!("{}d", seconds / day),
    }
}

/// What there is, or a dash.
pub(crate) fn or_dash(value: Option<&str>) -> String {
    value.filter(|it| !it.is_empty()).unwrap_or("-").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other_and_no_line_ends_with_spaces() {
        let rows = [
            vec!["a".to_owned(), "Ready".to_owned()],
            vec!["longer-name".to_owned(), String::new()],
        ];
        let text = table(&["NAME", "PHASE"], &rows);
        assert_eq!(
            text,
            "NAME          PHASE\na             Ready\nlonger-name\n"
        );
    }

    #[test]
    fn ages_use_the_largest_unit_that_says_enough() {
        let now = Timestamp::from_second(10_000_000).unwrap();
        let ago = |seconds: i64| {
            age(
                Some(Timestamp::from_second(10_000_000 - seconds).unwrap()),
                now,
            )
        };
        assert_eq!(ago(5), "5s");
        assert_eq!(ago(119), "119s");
        assert_eq!(ago(600), "10m");
        assert_eq!(ago(7200), "2h");
        assert_eq!(ago(200_000), "2d");
        assert_eq!(ago(-5), "0s", "clocks of two machines differ");
        assert_eq!(age(None, now), "-");
    }
}
