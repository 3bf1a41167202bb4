//! Where copies of official releases are found.

use reqwest::Url;

use crate::plan::Place;

/// The same files on a mirror, which keeps them below the name of the host they were copied from.
pub(crate) fn mirrored(mirror: &str, place: &Place) -> Option<Place> {
    let base = mirror.trim_end_matches('/');
    let on_mirror = |url: &str| {
        let url = Url::parse(url).ok()?;
        Some(format!("{base}/{}{}", url.host_str()?, url.path()))
    };
    Some(Place {
        url: on_mirror(&place.url)?,
        checksum_url: on_mirror(&place.checksum_url)?,
    })
}

/// The address as it may be shown and written down: a mirror's may hold a name and a password.
pub(crate) fn without_credentials(url: &str) -> String {
    let Some(mut parsed) = Url::parse(url).ok().filter(Url::has_host) else {
        return "an address that cannot be read".to_owned();
    };
    // Both fail only for addresses without a host.
    let _ = parsed.set_username("");
    let _ = parsed.set_password(None);
    parsed.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_keeps_files_below_the_name_of_their_host() {
        let place = Place {
            url: "https://dl.example.org/v1/bin/tool".into(),
            checksum_url: "https://dl.example.org/v1/bin/tool.sha256".into(),
        };
        let expected = Place {
            url: "http://127.0.0.1:9/files/dl.example.org/v1/bin/tool".into(),
            checksum_url: "http://127.0.0.1:9/files/dl.example.org/v1/bin/tool.sha256".into(),
        };
        assert_eq!(
            mirrored("http://127.0.0.1:9/files/", &place),
            Some(expected)
        );
    }

    #[test]
    fn a_password_of_a_mirror_is_never_shown() {
        let shown = without_credentials("https://me:secret@127.0.0.1:9/f");
        assert_eq!(shown, "https://127.0.0.1:9/f");
        assert!(!without_credentials("me:secret@:nonsense").contains("secret"));
    }
}
